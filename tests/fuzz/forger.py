"""The octets of a forger who has heard much and knows no secret: those of others, and its own."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

__all__ = ["Forger", "is_shown"]

_MOST = 40


class Forger:
    """Makes octets of those that it has heard: replayed, put together anew, damaged, or made up."""

    def __init__(self, rng: Random, heard: list[bytes]) -> None:
        """``heard``: of earlier conversations, whole messages and their parts."""
        self._rng = rng
        self._heard = list(heard)

    def hears(self, octets: bytes) -> None:
        """Octets travel, and it listens: as they are, and in parts of 32."""
        if octets and len(self._heard) < len(octets) // 32 + _MOST:
            self._heard += [
                octets,
                *(octets[at : at + 32] for at in range(0, len(octets), 32)),
            ]

    def octets(self, size: int) -> bytes:
        """Return octets, mostly as many as ``size``."""
        choice = int(self._rng.random() * 10)
        if choice == 0:
            return self._rng.randbytes(int(self._rng.random() * 2 * size))
        if choice == 1:
            return bytes(size)
        made = self._join(size)
        if choice == 2 and made:
            at = int(self._rng.random() * len(made))
            return (
                made[:at]
                + bytes([made[at] ^ 1 << int(self._rng.random() * 8)])
                + made[at + 1 :]
            )
        return made[:-1] if choice == 3 else made

    def _join(self, size: int) -> bytes:
        made = b""
        while len(made) < size:
            heard = self._heard and self._rng.random() < 0.8
            part = (
                self._heard[int(self._rng.random() * len(self._heard))]
                if heard
                else self._rng.randbytes(32)
            )
            made += part or b"\0"
        return made[:size]

    def pieces(self, octets: bytes) -> list[bytes]:
        """The octets in one piece, or in two."""
        if self._rng.random() < 0.8 or not octets:
            return [octets]
        cut = int(self._rng.random() * (len(octets) + 1))
        return [octets[:cut], octets[cut:]]

    def one_of(self, *choices: Callable[[], bytes]) -> bytes:
        """Return the octets of one of these."""
        return choices[int(self._rng.random() * len(choices))]()


def is_shown(sentence: str) -> bool:
    """Whether a terminal shows the sentence in lines, and obeys nothing in it."""
    return all(line.isprintable() for line in sentence.split("\n"))
