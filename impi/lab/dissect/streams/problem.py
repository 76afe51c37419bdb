"""A breach of the protocol, where it stands in its stream."""

from __future__ import annotations

from dataclasses import dataclass

_SHOWN = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A breach of the protocol in one sentence, with its clause; ``str()`` gives both."""

    text: str
    clause: str  # the clause of IMPI 0.0 that is broken, such as ``"3.5"``
    forth: bool  # whether it stands in the stream of the side that connected
    offset: int  # the octet of that stream at which it stands
    time: float
    cut: bool = False  # whether a stream that ended too early explains it
    # The octets concerned, at most 32; empty if there are none or they might be a key
    octets: bytes = b""

    def __str__(self) -> str:
        return f"{self.text} (IMPI {self.clause})"

    @classmethod
    def at(
        cls,
        text: str,
        clause: str,
        *,
        forth: bool,
        offset: int,
        time: float,
        data: bytes = b"",
        cut: bool = False,
    ) -> Problem:
        """A problem whose octets begin at ``offset`` of the stream ``data``."""
        return cls(
            text=text,
            clause=clause,
            forth=forth,
            offset=offset,
            time=time,
            octets=data[offset : offset + _SHOWN],
            cut=cut,
        )
