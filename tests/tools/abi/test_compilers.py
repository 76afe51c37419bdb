"""The compiler of a library's programs for the ABI: by name, by option, by header, or none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from abi_prefixes import fake_prefix

from impi.base.errors import LaunchError
from impi.cabi.library.elf_file import ElfFile
from impi.tools.abi import compilers

_PROGRAM = "#include <mpi.h>\nint main(void) { return MPI_Finalize() != MPI_SUCCESS || MPI_ABI_VERSION != 1; }\n"


def _script(prefix: Path, name: str, text: str) -> None:
    (prefix / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
    (prefix / "bin" / name).chmod(0o755)


def test_the_name_comes_first(tmp_path: Path) -> None:
    prefix = fake_prefix(tmp_path / "prefix")
    _script(prefix, "mpicc", "exit 1")
    found = compilers.wrapper(prefix, tmp_path, {"SOME_ROOT": "/there"})
    assert found is not None
    assert (found.title, found.environ) == ("bin/mpicc_abi", (("SOME_ROOT", "/there"),))


def test_the_option_of_one_that_knows_several_abis(tmp_path: Path) -> None:
    prefix = fake_prefix(tmp_path / "prefix")
    (prefix / "bin" / "mpicc_abi").unlink()
    _script(
        prefix,
        "mpicc",
        f'test "$1" = -mpi-abi || exit 1\nshift\nexec gcc -I {prefix}/include "$@"',
    )
    found = compilers.wrapper(prefix, tmp_path, {})
    assert found is not None
    assert found.title == "bin/mpicc -mpi-abi"


def test_one_that_was_built_for_the_abi_alone(tmp_path: Path) -> None:
    prefix = fake_prefix(tmp_path / "prefix")
    (prefix / "bin" / "mpicc_abi").rename(prefix / "bin" / "mpicc")
    found = compilers.wrapper(prefix, tmp_path, {})
    assert found is not None
    assert found.title == "bin/mpicc"


def test_one_of_another_abi_is_none(tmp_path: Path) -> None:
    prefix = fake_prefix(
        tmp_path / "prefix", header={"#define MPI_ABI_VERSION (1)": ""}
    )
    (prefix / "bin" / "mpicc_abi").rename(prefix / "bin" / "mpicc")
    assert compilers.wrapper(prefix, tmp_path, {}) is None
    assert compilers.header_only(prefix, tmp_path) is None


def test_a_header_alone(tmp_path: Path) -> None:
    prefix = fake_prefix(tmp_path / "prefix")
    (prefix / "include" / "standard_abi").mkdir()
    (prefix / "include" / "mpi.h").rename(prefix / "include" / "standard_abi" / "mpi.h")
    found = compilers.header_only(prefix, tmp_path)
    assert found is not None
    assert found.title == "include/standard_abi/mpi.h"


def test_ours_needs_no_mpi_and_links_the_abi_alone(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(_PROGRAM)
    assert (
        compilers.ours(tmp_path).compile(tmp_path / "program.c", tmp_path / "program")
        == ""
    )
    assert [name for name in ElfFile(tmp_path / "program").needed if "mpi" in name] == [
        "libmpi_abi.so.1"
    ]
    environ = {"LD_LIBRARY_PATH": str(fake_prefix(tmp_path / "prefix") / "lib")}
    subprocess.run([tmp_path / "program"], env=environ, check=True)


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(LaunchError, match="install gcc, or set CC to a compiler"):
        compilers.ours(tmp_path)


def test_a_compiler_that_cannot_be_started(tmp_path: Path) -> None:
    assert (
        compilers.run([str(tmp_path / "none")], {})
        == f"{tmp_path}/none cannot be started: No such file or directory"
    )
    _script(fake_prefix(tmp_path / "prefix"), "silent", "exit 3")
    silent = str(tmp_path / "prefix" / "bin" / "silent")
    assert compilers.run([silent], {}) == f"{silent} ended with code 3"
