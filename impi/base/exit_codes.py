"""The exit codes of impirun, impi and impilab: one table (docs/reference/exit-codes.md).

impirun passes on the code of a failed program, whatever that is.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes, each with its meaning."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning

        return code

    OK = 0, "as expected"
    FAILED = 1, "failures, or the job failed"
    INTERRUPTED = 2, "interrupted"
    OWN_FAULT = 3, "the lab's or the benchmark's own fault"
    USAGE = 4, "wrong use of the command"
    NOTHING = 5, "nothing selected"
    STALE = 6, "only expectations that no longer hold"
    TIMEOUT = 124, "the job had not ended in time (--timeout)"
    UNTESTED = 125, "not tested, for git bisect run"
    SIGINT = 130, "128+N: ended by signal N; here Ctrl-C"


def shown(*codes: ExitCode) -> str:
    """Return the codes with their meanings, for a help text."""
    return "exit codes: " + ", ".join(f"{int(code)} {code.meaning}" for code in codes)
