"""The sources that are compiled for a library, and the tools for it."""

from __future__ import annotations

import os
from importlib.machinery import SourceFileLoader

import pytest

from impi.base.errors import LaunchError
from impi.cabi.library import build, compilation


def test_the_python_side_of_a_library_is_compiled_with_it(compiled, monkeypatch):
    """Or each rank would: where PYTHONDONTWRITEBYTECODE is set, or the cache is read-only."""
    (side,) = build.library("standard", os.environ).parent.glob("impi_side_*.py")
    monkeypatch.setattr(SourceFileLoader, "source_to_code", None)
    code = SourceFileLoader("side", str(side)).get_code("side")
    assert code is not None and code.co_filename == str(side)


def test_a_compilation_is_told_before_it_begins_and_a_cached_library_is_not(
    tmp_path, monkeypatch
):
    """A busy machine compiles for minutes: the user knows for what the other clients wait."""
    told = []

    def fill(folder, place, name, file, behind):
        told.append("begins")
        folder.mkdir()
        for each in build.Making(name, behind).files:
            (folder / each).touch()

    monkeypatch.setattr(compilation, "fill", fill)
    for _ in range(2):
        build.preloaded("mpich", {"IMPI_CACHE": str(tmp_path)}, told.append)
    assert told == [
        "compiling impi's library for MPICH's ABI, once for this Python",
        "begins",
    ]


def test_a_tool_that_fails_or_is_missing_is_one_sentence(tmp_path):
    assert compilation.run(["echo", "well"]) == "well\n"
    with pytest.raises(
        LaunchError, match=r"cc fails for compiled programs: .*error: .*none.c"
    ):
        compilation.run(["cc", "-c", str(tmp_path / "none.c")])
    with pytest.raises(
        LaunchError, match="compiled programs need no-such-tool once on this machine"
    ):
        compilation.run(["no-such-tool"])


def test_a_library_names_itself_and_its_symbols_are_found(tmp_path):
    source = tmp_path / "x.c"
    source.write_text(
        "int MPI_Mine(void) { return 0; }\nint other(void) { return 0; }\n"
    )
    out = tmp_path / "x.so"
    compilation.link_shared(out, "libmine.so.7", [str(source)])
    assert b"libmine.so.7\0" in out.read_bytes()
    assert compilation.symbols(out, "T") == {"MPI_Mine"}
    assert compilation.symbols(out, "W") == frozenset()


def test_a_guard_needs_the_vendors_library_and_the_copy_needs_the_guard(tmp_path):
    library, extension = tmp_path / "libmpi.so.12", tmp_path / "MPI.so"
    source = tmp_path / "x.c"
    source.write_text("int MPI_Here(void) { return 0; }\n")
    compilation.link_shared(library, "libmpi.so.12", [str(source)])
    source.write_text(
        "int MPI_Here(void);\nint MPI_Absent(void) __attribute__((weak));\n"
    )
    source.write_text(
        source.read_text()
        + "void *at(int n) { return n ? (void *)MPI_Here : (void *)MPI_Absent; }\n"
    )
    compilation.link_shared(extension, "MPI.so", [str(source), str(library)])
    made = tmp_path / "work" / "made"
    made.parent.mkdir()
    compilation.fill_guard(made, extension, library, "libmpi.so.12", "impiguard.12")
    needs = compilation.run(["readelf", "-d", str(made / "impiguard.12")])
    assert f"[{library}]" in needs and "[impiguard.12]" in needs
    assert "[impiguard.12]" in compilation.run(["readelf", "-d", str(made / "MPI.so")])
    assert "A MPI_Absent" in compilation.run(["nm", "-D", str(made / "impiguard.12")])
    with pytest.raises(
        LaunchError, match=r"does not need libmpi\.so\.99 as mpi4py's extensions do"
    ):
        compilation.fill_guard(
            tmp_path / "work" / "again",
            extension,
            library,
            "libmpi.so.99",
            "impiguard.99",
        )
