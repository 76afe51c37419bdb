"""The places of a vendor's mpiexec, in the order of the search."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.base.errors import LaunchError, UsageError
from impi.launch.start import prefix
from impi.launch.start.prefix import abi_of, find, told, vendor_of


def make(
    folder: Path, version: str = "HYDRA build details:", library: str = "libmpi.so.12"
) -> Path:
    for name in ("bin", "lib"):
        (folder / name).mkdir(parents=True)
    program = folder / "bin" / "mpiexec"
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    (folder / "lib" / library).write_bytes(b"")
    return folder


@pytest.fixture(autouse=True)
def no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without .mpi, so that this one's does not count."""
    monkeypatch.setattr(
        prefix, "library_folder", lambda vendor: tmp_path / "checkout/.mpi" / vendor
    )
    return tmp_path / "checkout"


def test_order(tmp_path: Path, no_checkout: Path) -> None:
    option, variable, path = (
        make(tmp_path / name) for name in ("option", "variable", "path")
    )
    environ = {"IMPI_PREFIX_MPICH": str(variable), "PATH": str(path / "bin")}
    checkout = make(no_checkout / ".mpi" / "mpich")
    assert find("mpich", str(option), environ).prefix == option
    assert find("mpich", "", environ).prefix == variable
    del environ["IMPI_PREFIX_MPICH"]
    assert find("mpich", "", environ).prefix == checkout
    (checkout / "bin" / "mpiexec").unlink()
    found = find("mpich", "", environ)
    assert (found.prefix, found.mpiexec) == (path, str(path / "bin" / "mpiexec"))
    assert found.library == str(path / "lib" / "libmpi.so.12")


def test_open_mpi_on_the_path(tmp_path: Path) -> None:
    make(tmp_path / "m", "mpiexec (Open MPI) 4.1.4", "libmpi.so.40")
    assert find("openmpi", "", {"PATH": str(tmp_path / "m" / "bin")}).library.endswith(
        "libmpi.so.40"
    )


def test_the_mpiexec_on_the_path_is_another_vendors(tmp_path: Path) -> None:
    make(tmp_path / "m", "mpiexec (Open MPI) 5.0.11", "libmpi.so.40")
    with pytest.raises(
        LaunchError,
        match=r"m/bin/mpiexec on the PATH is not mpich's.*--prefix DIR or IMPI_PREFIX_MPICH",
    ):
        find("mpich", "", {"PATH": str(tmp_path / "m" / "bin")})


def test_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(
        LaunchError, match=r"no mpiexec of openmpi was found; .*--vendor pure"
    ):
        find("openmpi", "", {"PATH": str(tmp_path)})


@pytest.mark.parametrize("origin", ["--prefix", "IMPI_PREFIX_MPICH"])
def test_a_named_folder_must_be_right(origin: str, tmp_path: Path) -> None:
    named = str(tmp_path)
    arguments = (named, {}) if origin == "--prefix" else ("", {origin: named})
    with pytest.raises(UsageError, match=f"{origin} .* has no bin/mpiexec"):
        find("mpich", *arguments)


def test_the_library_is_left_to_mpi4py_if_it_is_elsewhere(tmp_path: Path) -> None:
    folder = make(tmp_path / "m", library="libother.so")
    assert find("mpich", str(folder), {}).library == ""


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("HYDRA build details:", "mpich"),
        ("mpiexec (Open MPI) 5.0.11", "openmpi"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.19.0, with Hydra", "intel"),
        ("HYDRA build details: CC: /opt/intel/bin/icx", "mpich"),
        ("mpiexec of somebody else", ""),
    ],
)
def test_whose_an_mpiexec_is(version: str, name: str, tmp_path: Path) -> None:
    found = vendor_of(str(make(tmp_path / "m", version) / "bin" / "mpiexec"))
    assert (found.name if found else "") == name


@pytest.fixture
def debian(tmp_path: Path) -> Path:
    """A folder as Debian's /usr with two vendors, whose ``mpiexec`` is Open MPI's."""
    usr = make(tmp_path / "usr", "mpiexec (Open MPI) 4.1.4", "other.so")
    (usr / "bin/mpiexec.mpich").write_text("#!/bin/sh\necho 'HYDRA build details:'\n")
    (usr / "bin/mpiexec.mpich").chmod(0o755)
    libraries = usr / "lib/x86_64-linux-gnu"
    libraries.mkdir()
    (libraries / "libmpich.so.12.2.2").write_bytes(b"\0PMPI_Init\0MPIR_X\0")
    (libraries / "libmpich.so.12").symlink_to("libmpich.so.12.2.2")
    (libraries / "libmpi.so.40").write_bytes(b"\0MPI_Init\0ompi_mpi_comm_world\0")
    return usr


def test_two_vendors_of_debian_in_one_folder(debian: Path, tmp_path: Path) -> None:
    environ = {"PATH": str(debian / "bin"), "IMPI_CACHE": str(tmp_path / "cache")}
    real = debian / "lib/x86_64-linux-gnu/libmpich.so.12.2.2"
    for named in ("", str(debian)):
        mpich, openmpi = (
            find(vendor, named, environ) for vendor in ("mpich", "openmpi")
        )
        assert (mpich.prefix, Path(mpich.mpiexec).name) == (debian, "mpiexec.mpich")
        assert (mpich.library, mpich.links) == (
            f"{mpich.links}/libmpi.so.12",
            str(Path(mpich.library).parent),
        )
        assert Path(mpich.library).resolve() == real
        assert Path(openmpi.mpiexec).name == "mpiexec"
        assert (openmpi.library, openmpi.links) == (
            str(debian / "lib/x86_64-linux-gnu/libmpi.so.40"),
            "",
        )
    assert f"is {mpich.library}, which is {real}, with MPICH's ABI; it was" in told(
        "mpich", mpich.library
    )
    assert f"is {openmpi.library}, with Open MPI's ABI" in told(
        "openmpi", openmpi.library
    )


def test_an_abi_is_what_a_library_exports(tmp_path: Path) -> None:
    (tmp_path / "libmpi_abi.so.0").write_bytes(b"\0MPI_Init\0")
    (tmp_path / "libm.so").write_bytes(b"\0sin\0")
    assert abi_of(str(tmp_path / "libmpi_abi.so.0")) == "the standard ABI"
    assert abi_of(str(tmp_path / "libm.so")) == "no functions of MPI"
