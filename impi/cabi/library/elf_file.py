"""The parts of an ELF file that tell of MPI: names, symbols, and values in a section.

How it works: the tables of an ELF file are read with struct, in either order of octets, for files
of 64 bits. A general reader would be a dependency for some 150 lines. The file may be a stranger's
or damaged, so every number in it is doubted: whatever leads out of the file becomes one sentence
(``_whole``), and never an error of struct.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError, unread
from impi.base.records import record

_DYNSYM, _DYNAMIC, _RELA, _REL, _NOBITS = 11, 6, 4, 9, 8
_NEEDED, _SONAME, _RPATH = 1, 14, 15
_FUNCTIONS: Final = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_EXPORTED: Final = (1, 2)  # STB_GLOBAL, STB_WEAK
_VISIBLE: Final = (0, 3)  # STV_DEFAULT, STV_PROTECTED


@record
class _Section:
    name: int
    kind: int
    offset: int
    size: int
    link: int
    info: int


class ElfFile:
    """One file.

    Raises:
        UsageError: it cannot be read, or is not a whole ELF file of 64 bits.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._data = path.read_bytes()
        except OSError as error:
            raise unread(path, error) from None

        if self._data[:5] != b"\x7fELF\x02" or self._data[5:6] not in (
            b"\x01",
            b"\x02",
        ):
            raise UsageError(f"{path} is not an ELF file of 64 bits")

        self.order = "<" if self._data[5] == 1 else ">"
        with self._whole():
            # e_shoff; then e_shentsize, e_shnum and e_shstrndx of the header.
            (table,) = struct.unpack_from(f"{self.order}Q", self._data, 40)
            size, count, names = struct.unpack_from(f"{self.order}HHH", self._data, 58)
            self._sections = [
                self._section(table + number * size) for number in range(count)
            ]
            self._names = self._content(self._sections[names])
            self.soname, self.needed, self.rpath = self._dynamic()
            self.functions = frozenset(self._exported())

    @contextmanager
    def _whole(self) -> Iterator[None]:
        try:
            yield
        except (struct.error, IndexError, ValueError, OverflowError):
            raise UsageError(
                f"{self.path} is an ELF file that is not whole, or has no sections"
            ) from None

    def values(self, section: str) -> list[int]:
        """Return the 64-bit integers of a section; empty: there is none of that name."""
        with self._whole():
            for found in self._sections:
                if self._text(
                    self._names, found.name
                ) == section and found.kind not in (_RELA, _REL):
                    return [
                        value
                        for (value,) in struct.iter_unpack(
                            f"{self.order}q", self._content(found)
                        )
                    ]

        return []

    def addresses(self, section: str) -> set[int]:
        """Return which 64-bit integers of a section the linker fills with addresses."""
        found: set[int] = set()
        with self._whole():
            named = {
                i
                for i, each in enumerate(self._sections)
                if self._text(self._names, each.name) == section
            }
            for each in self._sections:
                if each.kind == _RELA and each.info in named:
                    rows = struct.iter_unpack(f"{self.order}QQq", self._content(each))
                    found.update(offset // 8 for offset, _, _ in rows)

        return found

    def _section(self, offset: int) -> _Section:
        name, kind, _, _, begin, size, link, info = struct.unpack_from(
            f"{self.order}IIQQQQII", self._data, offset
        )
        return _Section(name, kind, begin, size, link, info)

    def _content(self, section: _Section) -> bytes:
        # Such a section has a size, but no octets in the file.
        if section.kind == _NOBITS:
            return b""

        if section.offset + section.size > len(self._data):
            raise IndexError(section.offset)

        return self._data[section.offset : section.offset + section.size]

    @staticmethod
    def _text(strings: bytes, offset: int) -> str:
        return strings[offset : strings.index(b"\0", offset)].decode(
            "utf-8", "surrogateescape"
        )

    def _dynamic(self) -> tuple[str, tuple[str, ...], bool]:
        soname, needed, rpath = "", [], False
        for section in (each for each in self._sections if each.kind == _DYNAMIC):
            strings = self._content(self._sections[section.link])
            for tag, value in struct.iter_unpack(
                f"{self.order}qQ", self._content(section)
            ):
                if tag == _NEEDED:
                    needed.append(self._text(strings, value))
                elif tag == _SONAME:
                    soname = self._text(strings, value)

                rpath = rpath or tag == _RPATH

        return soname, tuple(needed), rpath

    def _exported(self) -> Iterator[str]:
        for section in (each for each in self._sections if each.kind == _DYNSYM):
            strings = self._content(self._sections[section.link])
            for name, info, other, where, _, _ in struct.iter_unpack(
                f"{self.order}IBBHQQ", self._content(section)
            ):
                # Without a section the symbol is one that the file needs, and does not have.
                visible = where and info >> 4 in _EXPORTED and other & 3 in _VISIBLE
                if visible and info & 15 in _FUNCTIONS:
                    yield self._text(strings, name)
