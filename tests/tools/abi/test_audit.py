"""An audit is green of a library that has the ABI, and red by the item of each planted defect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from abi_prefixes import fake_prefix

from impi.tools.abi.audit import ITEMS, audit, last_line
from impi.tools.abi.libraries import Library, named
from impi.tools.abi.verdicts import FAIL, PASS, UNSUPPORTED, UNTESTED


def _fake(folder: Path, **planted: Any) -> Library:
    return named([f"fake={fake_prefix(folder / 'prefix', **planted)}"])[0]


def _found(library: Library, folder: Path) -> dict[str, tuple[str, str]]:
    audited, _ = audit(library, folder)
    assert [each.item for each in audited.audit] == list(ITEMS)
    return {each.item: (each.verdict, each.detail) for each in audited.audit}


def _red(library: Library, folder: Path) -> dict[str, str]:
    return {
        item: detail
        for item, (verdict, detail) in _found(library, folder).items()
        if verdict != PASS
    }


def test_a_library_that_has_the_abi_is_green(tmp_path: Path) -> None:
    found = _found(_fake(tmp_path), tmp_path)
    assert {verdict for verdict, _ in found.values()} == {PASS}
    assert found["links"][1] == "bin/mpicc_abi links libmpi_abi.so.1 alone"


def test_a_missing_name(tmp_path: Path) -> None:
    assert _red(_fake(tmp_path, lacks=["PMPI_Comm_fromint"]), tmp_path) == {
        "PMPI_ names": "it lacks PMPI_Comm_fromint"
    }


def test_names_that_another_library_has(tmp_path: Path) -> None:
    """As MPICH 5.0.1 on macOS: PMPI_ names in a second library, which its wrapper links, too."""
    profiled = ["PMPI_Comm_fromint", "PMPI_Comm_size", "PMPI_Type_fromint"]
    # Programs that call PMPI_ functions need both.
    library = _fake(
        tmp_path,
        lacks=profiled,
        elsewhere={"libpmpi_abi.so.1": profiled},
        links="-lmpi_abi -lpmpi_abi",
    )
    red = _red(library, tmp_path)
    assert set(red) == {"PMPI_ names", "links"}
    assert "libpmpi_abi.so.1 has PMPI_Comm_fromint" in red["PMPI_ names"]
    assert (
        "needs libmpi_abi.so.1, libpmpi_abi.so.1, where libmpi_abi.so.1 alone is allowed"
        in red["links"]
    )


def test_the_wrong_soname(tmp_path: Path) -> None:
    assert _red(_fake(tmp_path, soname="libmpi_abi.so.0"), tmp_path) == {
        "soname": "its soname is libmpi_abi.so.0, and not libmpi_abi.so.1"
    }


def test_a_wrapper_that_links_the_library_of_another_abi(tmp_path: Path) -> None:
    functions = ["MPI_Init", "PMPI_Comm_size", "MPI_Finalize"]
    red = _red(
        _fake(tmp_path, elsewhere={"libmpi.so.12": functions}, links="-l:libmpi.so.12"),
        tmp_path,
    )
    assert set(red) == {"links"}
    assert "needs libmpi.so.12" in red["links"]


def test_a_wrapper_that_links_what_its_library_is_made_of(tmp_path: Path) -> None:
    links = "-Wl,--no-as-needed -lmpi_abi -lfabric -lm -lpthread"
    red = _red(
        _fake(tmp_path, elsewhere={"libfabric.so.1": ["fi_getinfo"]}, links=links),
        tmp_path,
    )
    assert set(red) == {"links"}
    assert "needs libmpi_abi.so.1, libfabric.so.1, where" in red["links"]


def test_a_wrapper_that_does_not_link(tmp_path: Path) -> None:
    red = _red(_fake(tmp_path, links="-lnothing_of_that_name"), tmp_path)
    assert set(red) == {"links"}
    assert "nothing_of_that_name" in red["links"]


@pytest.mark.parametrize(
    ("before", "after", "item", "said"),
    [
        (
            "MPI_ERRORS_RETURN ((MPI_Errhandler)323)",
            "MPI_ERRORS_RETURN ((MPI_Errhandler)322)",
            "handles",
            "is 322, not 323",
        ),
        (
            "MPI_COMM_WORLD ((MPI_Comm)257)",
            "MPI_COMM_WORLD ((MPI_Comm)&impi_world)",
            "handles",
            "it is an address",
        ),
        (
            "MPI_SEEK_SET (403)",
            "MPI_SEEK_SET (401)",
            "constants",
            "MPI_SEEK_SET is 401, not 403",
        ),
        (
            "#define MPI_ERR_ABI (62)\n",
            "",
            "constants",
            "MPI_ERR_ABI: the header does not have it",
        ),
        (
            "MPI_ABI_VERSION (1)",
            "MPI_ABI_VERSION (2)",
            "version",
            "MPI_ABI_VERSION is 2, not 1",
        ),
        (
            "MPI_internal[5]; } MPI_Status;",
            "MPI_internal[3]; } MPI_Status;",
            "layout",
            "sizeof(MPI_Status) is 24, not 32",
        ),
    ],
)
def test_a_wrong_value(
    tmp_path: Path, before: str, after: str, item: str, said: str
) -> None:
    header = {
        before: after,
        "#include <stdint.h>": "#include <stdint.h>\nstatic char impi_world;",
    }
    red = _red(_fake(tmp_path, header=header), tmp_path)
    assert set(red) == {item}
    assert said in red[item]


def test_a_library_without_the_abi_is_unsupported(tmp_path: Path) -> None:
    prefix = tmp_path / "plain"
    (prefix / "lib").mkdir(parents=True)
    (prefix / "lib" / "libmpi_abi.so").write_text("INPUT(libmpi_abi.so.1)\n")
    found = _found(named([f"plain={prefix}"])[0], tmp_path)
    assert {verdict for verdict, _ in found.values()} == {UNSUPPORTED}


def test_half_a_file_is_red(tmp_path: Path) -> None:
    library = _fake(tmp_path)
    assert library.file
    octets = library.file.read_bytes()
    library.file.write_bytes(octets[: len(octets) // 2])
    found = _found(library, tmp_path)
    assert found["library"][0] == FAIL
    assert "not whole" in found["library"][1]
    assert found["MPI_ names"][0] == UNTESTED


def test_without_a_wrapper_the_header_is_looked_at(tmp_path: Path) -> None:
    library = _fake(tmp_path)
    (library.prefix / "bin" / "mpicc_abi").unlink()
    found = _found(library, tmp_path)
    assert found["links"] == (
        UNTESTED,
        f"{library.prefix} has no mpicc_abi, and no mpicc that knows -mpi-abi",
    )
    assert found["handles"] == (PASS, "105 values by include/mpi.h")


def test_without_a_header_nothing_is_said_of_it(tmp_path: Path) -> None:
    library = _fake(tmp_path)
    (library.prefix / "bin" / "mpicc_abi").unlink()
    (library.prefix / "include" / "mpi.h").unlink()
    assert {verdict for verdict, _ in list(_found(library, tmp_path).values())[4:]} == {
        UNTESTED
    }


def test_a_wrapper_without_a_compiler_is_no_verdict(tmp_path: Path) -> None:
    library = _fake(tmp_path)
    (library.prefix / "bin" / "mpicc_abi").write_text(
        "#!/bin/sh\necho 'icx: not found' >&2\nexit 127\n"
    )
    found = _found(library, tmp_path)
    assert found["links"] == (
        UNTESTED,
        "bin/mpicc_abi compiles nothing: icx: not found",
    )
    assert found["constants"][0] == UNTESTED


def test_the_line_that_says_it() -> None:
    said = "In file included from a.c:1:\na.c:3:5: error: unknown type name 'MPI_Fint'\n   3 | MPI_Fint"
    assert last_line(said) == "a.c:3:5: error: unknown type name 'MPI_Fint'"
    assert last_line("") == "no word"
