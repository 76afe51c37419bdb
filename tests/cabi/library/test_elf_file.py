"""ELF files: names and symbols, and any octets instead of one."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from abi_prefixes import compile_library

from impi.base.errors import UsageError
from impi.cabi.library.elf_file import ElfFile
from impi.cabi.library.program_file import is_elf

_TEXT = """
int shown(void) { return 1; }
__attribute__((visibility("hidden"))) int hidden(void) { return 2; }
static int own(void) { return 3; }
int data = 4;
int also(void) { return own(); }
long long values[] __attribute__((used, section("some_values"))) = {-1, 1LL << 40, 7};
long long mixed[] __attribute__((used, section("mixed_values"))) = {5, (long long)&data};
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elf") / "libsome.so.3"
    compile_library(path, path.name, _TEXT, "-Wl,--no-as-needed", "-lm")
    return path


def test_names_and_functions(library: Path) -> None:
    found = ElfFile(library)
    assert found.soname == "libsome.so.3"
    assert "libm.so.6" in found.needed
    assert {"shown", "also"} <= found.functions
    assert not {"hidden", "own", "data"} & found.functions


def test_values_of_an_object_file(tmp_path: Path) -> None:
    path = tmp_path / "some.o"
    subprocess.run(
        ["gcc", "-c", "-x", "c", "-", "-o", str(path)],
        input=_TEXT,
        text=True,
        check=True,
    )
    found = ElfFile(path)
    assert found.values("some_values") == [-1, 1 << 40, 7]
    assert found.values("mixed_values")[0] == 5
    assert found.addresses("mixed_values") == {1}
    assert found.addresses("some_values") == set()
    assert found.values("none_of_that_name") == []


def test_what_is_no_elf_file(tmp_path: Path) -> None:
    text = tmp_path / "libmpi_abi.so"
    text.write_text("INPUT(libmpi_abi.so.1)")
    assert not is_elf(text)
    assert not is_elf(tmp_path / "missing")
    with pytest.raises(UsageError, match="is not an ELF file of 64 bits"):
        ElfFile(text)
    with pytest.raises(UsageError, match="missing cannot be read: No such file"):
        ElfFile(tmp_path / "missing")


def test_any_octets_are_refused_by_a_sentence(library: Path, tmp_path: Path) -> None:
    octets, choose = library.read_bytes(), random.Random(11)
    path = tmp_path / "broken"
    for _ in range(150):
        broken = bytearray(
            octets[: choose.choice((len(octets), choose.randrange(5, len(octets))))]
        )
        for _ in range(choose.randrange(1, 60)):
            # Most of all in the header and in the table of sections, at the end.
            begin, end = choose.choice(
                ((5, 64), (max(len(broken) - 2000, 0), len(broken)))
            )
            broken[min(choose.randrange(begin, end), len(broken) - 1)] = (
                choose.randrange(256)
            )
        path.write_bytes(broken)
        try:
            ElfFile(path).addresses("some_values")
        except UsageError as error:
            assert str(path) in str(error)
