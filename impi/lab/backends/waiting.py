"""Messages to the user during a long wait: its subject, its progress, and its duration."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_FIRST_S: Final = 3.0
_MOST_S: Final = 30.0
_STEP: Final = re.compile(r"Step (\d+/\d+) : ")
_SHOWN: Final = 100  # characters of where it stands


def say(text: str) -> None:
    """Tell the user something that is not a result."""
    print(f"impilab: {text}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class LongWait:
    """The progress of a wait: the number of its step, and the newest line."""

    now: str = ""
    step: str = ""

    def heard(self, text: str) -> None:
        """Take the newest line that is none of blanks, and the engine's number of the step."""
        for line in filter(None, map(str.strip, text.splitlines())):
            if match := _STEP.match(line):
                self.step = f"step {match[1]}, "

            self.now = line

    def __str__(self) -> str:
        return "".join(c if c.isprintable() else " " for c in self.step + self.now)[
            :_SHOWN
        ].strip()


@contextmanager
def waiting(
    what: str, tell: Callable[[str], None] = say, *, first_s: float = _FIRST_S
) -> Iterator[LongWait]:
    """Tell after 3 s, and again and again, what is waited for; shorter waits are silent.

    Lines become rarer, up to one each half a minute: they go into logs, too.
    """

    wait, over, began = LongWait(), threading.Event(), time.monotonic()

    def watch() -> None:
        pause_s = first_s
        while not over.wait(pause_s):
            where = f": {wait}" if wait.now else ""
            tell(f"{what}, {time.monotonic() - began:.0f} s{where}")
            pause_s = min(2 * pause_s, _MOST_S)

    thread = threading.Thread(target=watch, name=what, daemon=True)

    thread.start()
    try:
        yield wait
    finally:
        over.set()
        thread.join()
