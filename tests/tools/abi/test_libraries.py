"""The libraries of a command line and of a machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from abi_prefixes import add_library, fake_prefix

from impi.base.errors import UsageError
from impi.tools.abi import libraries
from impi.tools.abi.libraries import discovered, files_of, named, where_else


def test_a_named_one(tmp_path: Path) -> None:
    prefix = fake_prefix(tmp_path / "prefix", version="HYDRA build details:")
    [found] = named([f"mine-5.1={prefix}"])
    assert (found.name, found.prefix, found.mpiexec) == (
        "mine-5.1",
        prefix,
        f"{prefix}/bin/mpiexec",
    )
    assert found.vendor
    assert found.vendor.name == "mpich"
    assert found.file == prefix / "lib" / "libmpi_abi.so.1"
    assert where_else(found, "MPI_Init") == ""


def test_one_that_no_vendor_made(tmp_path: Path) -> None:
    [found] = named([f"mine={fake_prefix(tmp_path / 'prefix', version='mine')}"])
    assert found.vendor is None
    assert found.variables == {}


def test_one_without_mpiexec_and_abi(tmp_path: Path) -> None:
    [found] = named([f"empty={tmp_path}"])
    assert (found.mpiexec, found.file, found.vendor) == ("", None, None)


@pytest.mark.parametrize(
    "text", ["", "mine", "mine=", "=/tmp", "a b=/tmp", f"{'n' * 33}=/tmp", "../x=/tmp"]
)
def test_texts_that_name_nothing(text: str) -> None:
    with pytest.raises(UsageError, match="--library is NAME=PREFIX, not"):
        named([text])


def test_a_folder_that_is_not_there_and_a_name_twice(tmp_path: Path) -> None:
    for prefix in (
        "/nowhere",
        "~nobody-of-that-name/x",
        "/" + "n" * 5000,
        "/no\0where",
        "/dev/null",
        "\udcff",
    ):
        with pytest.raises(UsageError, match="there is no folder"):
            named([f"mine={prefix}"])
    with pytest.raises(UsageError, match="names 'mine' twice"):
        named([f"mine={tmp_path}", f"mine={tmp_path}"])


def test_the_file_that_the_loader_takes_comes_first(tmp_path: Path) -> None:
    """Intel's wheel has copies in place of links."""
    prefix = fake_prefix(tmp_path / "prefix")
    usual = prefix / "lib" / "libmpi_abi.so.1"
    (prefix / "lib" / "libmpi_abi.so.1.0").write_bytes(usual.read_bytes())
    assert named([f"mine={prefix}"])[0].file == usual
    assert len(files_of(prefix, "libmpi_abi.so*")) == 2


def test_where_else_a_name_is(tmp_path: Path) -> None:
    prefix = fake_prefix(tmp_path / "prefix")
    add_library(prefix, "libpmpi_abi.so.1", ["PMPI_Init"])
    assert where_else(named([f"mine={prefix}"])[0], "PMPI_Init") == "libpmpi_abi.so.1"


def test_those_of_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = fake_prefix(tmp_path / "mpich", version="HYDRA build details:")
    add_library(mine, "libmpi.so.12", ["MPI_Init"])
    fake_prefix(tmp_path / "mpich@4.3", version="HYDRA build details:")
    monkeypatch.setattr(libraries, "library_folder", lambda vendor: tmp_path / vendor)
    monkeypatch.setattr(
        "impi.launch.start.prefix.library_folder", lambda vendor: tmp_path / "none"
    )
    environ = {"IMPI_PREFIX_MPICH": str(mine), "PATH": str(tmp_path)}
    assert [(each.name, each.prefix) for each in discovered(environ)] == [
        ("mpich", mine),
        ("mpich@4.3", tmp_path / "mpich@4.3"),
    ]
