"""The lines of PMI-1: ``cmd=put kvsname=job key=a value=b``; blocks end with ``endcmd``.

The draft of PMI fixes calls in C and no octets. These are the lines that MPICH's *simple* client
has sent since its first release. Values contain no blank, with one exception: the message of
``abort``. So a word without ``=`` belongs to the value before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from impi.base.errors import PeerError
from impi.base.records import record

MOST_LINE: Final = 1 << 16
"""Longest line in octets; MPICH's own clients send at most 4096."""
MOST_BLOCK: Final = 1 << 12
"""Most lines in a block: a spawn has one line for each argument."""
NAME_MAX: Final = 256
KEY_MAX: Final = 64
VALUE_MAX: Final = 1024
"""Longest names of spaces, keys and values in octets, the same as Hydra's."""


@record
class Query:
    """One command of a client, or one answer of a manager."""

    command: str
    fields: Mapping[str, str]
    block: tuple[tuple[str, str], ...] = ()

    def text(self, name: str) -> str:
        try:
            return self.fields[name]
        except KeyError:
            raise PeerError(
                f"a PMI command {self.command!r} came without {name!r}"
            ) from None

    def number(self, name: str) -> int:
        """Return a field as a number; PeerError: it is missing or no number."""

        text = self.text(name)

        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 11):
            raise PeerError(
                f"a PMI command {self.command!r} came with {name}={text[:32]!r}, which is not a number"
            )

        return int(text)


def encode(command: str, **fields: object) -> bytes:
    """Return the line of a command. Values must have no blank and no newline, unchecked here."""
    words = [f"cmd={command}", *(f"{name}={value}" for name, value in fields.items())]
    return (" ".join(words) + "\n").encode()


class QueryReader:
    """Cuts the octets of one connection into queries."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._block: list[tuple[str, str]] | None = None

    @property
    def empty(self) -> bool:
        return not self._received and self._block is None

    def feed(self, data: bytes) -> Iterator[Query]:
        """Yield the queries that ``data`` completes.

        Raises:
            PeerError: the octets are not PMI-1, or a line or block is too long.
        """
        self._received += data
        while (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end])

            del self._received[: end + 1]
            if (query := self._line(line)) is not None:
                yield query

        # A line without an end must not fill the memory.
        if len(self._received) > MOST_LINE:
            raise PeerError(
                f"a line of PMI has more than {MOST_LINE} octets",
                octets=bytes(self._received[:32]),
            )

    def _line(self, line: bytes) -> Query | None:
        if len(line) > MOST_LINE:
            raise PeerError(
                f"a line of PMI has more than {MOST_LINE} octets", octets=line[:32]
            )

        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise PeerError("a line of PMI is not text", octets=line) from None

        if self._block is None and not text.startswith("mcmd="):
            return _query(text, line) if text.strip() else None

        return self._line_of_block(text, line)

    def _line_of_block(self, text: str, line: bytes) -> Query | None:
        block = self._block = self._block if self._block is not None else []
        if text.strip() == "endcmd":
            self._block = None
            command = block[0][1] if block[0][0] == "mcmd" else ""
            return Query(command, dict(block[1:]), tuple(block[1:]))

        name, equals, value = text.partition("=")
        if not equals or not name:
            raise PeerError("a line of a PMI block is not NAME=VALUE", octets=line)

        if len(block) >= MOST_BLOCK:
            raise PeerError(f"a block of PMI has more than {MOST_BLOCK} lines")

        block.append((name, value))

        return None


def _query(text: str, line: bytes) -> Query:
    found: dict[str, str] = {}

    last = ""
    for part in text.split():
        name, equals, value = part.partition("=")
        if equals and name:
            found[name] = value
            last = name
        elif last:
            found[last] += f" {part}"

    command = found.pop("cmd", "")
    if not command or not text.lstrip().startswith("cmd="):
        raise PeerError("a line of PMI does not begin with cmd=", octets=line)

    return Query(command, found)
