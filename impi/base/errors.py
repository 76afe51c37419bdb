"""Every exception of the project; the type tells the origin of the fault.

::

    ImpiError
    ├── UsageError        a user's mistake: command line, environment, topology file
    ├── LocalProtocolError our own side asked a machine for something the protocol forbids
    ├── PeerError         the other side broke the protocol
    │   └── Truncated     ... by closing in the middle
    ├── StartupError      chapter 2 ended without a job (the message is for the user)
    ├── JobError          a running job cannot go on: a client, host or proc was lost
    ├── LaunchError       a process could not be started or ended badly
    └── LabError          the testbed's own fault, never a verdict on what it tests
"""

from __future__ import annotations

from collections.abc import Iterable

_SHOWN_OCTETS = 32


class ImpiError(Exception):
    """Base of all; ``str()`` is one sentence for the user, with the clause where there is one.

    Args:
        message: what went wrong, where, and the cure, in one sentence.
        clause: the clause of the IMPI 0.0 specification that decides, such as ``"2.3.5"``.
        peer: who is at fault, in the user's words (``"client 1 (10.0.0.2)"``).
        octets: the bytes in question; at most 32 of them are shown.
    """

    def __init__(self, message: str, *, clause: str = "", peer: str = "", octets: bytes = b"") -> None:
        self.message, self.clause, self.peer = message, clause, peer
        self.octets = bytes(octets)
        super().__init__(message)

    def __str__(self) -> str:
        text = f"{self.peer}: {self.message}" if self.peer else self.message
        if self.octets:
            more = "..." if len(self.octets) > _SHOWN_OCTETS else ""
            text += f" [octets {self.octets[:_SHOWN_OCTETS].hex()}{more}]"
        if self.clause:
            text += f" (IMPI {self.clause})"
        return text


class UsageError(ImpiError):
    """The user's mistake; shown as one sentence, never as a traceback."""


def refuse(*reasons: tuple[object, str]) -> None:
    """Raise UsageError with the first sentence whose condition holds."""
    for holds, sentence in reasons:
        if holds:
            raise UsageError(sentence)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return what is nearest to a word; empty: nothing is near."""
    import difflib  # a command line without mistakes needs it not

    return "".join(difflib.get_close_matches(word, [*known], 1))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that names what is nearest to a word; empty: nothing is near."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


class LocalProtocolError(ImpiError):
    """Our own side asked a state machine for something the protocol forbids: a bug of ours."""


class PeerError(ImpiError):
    """The other side broke the protocol."""


class Truncated(PeerError):
    """The other side closed the connection in the middle of something."""


class StartupError(ImpiError):
    """Start-up (chapter 2) ended without a job."""


class JobError(ImpiError):
    """A running job cannot go on."""

    code = 1
    """The exit code for all of the job."""


class HostRefused(JobError):
    """A host of the job is not let in, or does not let us in: said at once, and at all ends."""


class ServerLost(JobError):
    """The server ended without a word, or is silent; the caller adds the phase of the job."""


class HungUp(PeerError, JobError):
    """A peer has closed a connection before both were ready: it was ended, or breaks 3.8.

    As the end of a job is the usual reason, it is told as late as that of a lost peer.
    """


class LaunchError(ImpiError):
    """A process could not be started, or ended badly."""


class LabError(ImpiError):
    """The testbed itself failed; no verdict on the cell follows from it."""


class JobEnded(JobError):
    """The server has ended the job and said why.

    Args:
        message: the sentence that all clients get.
        code: the exit code for all of the job.
    """

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
