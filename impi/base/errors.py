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

import errno
from collections.abc import Iterable

_SHOWN_OCTETS = 32


class ImpiError(Exception):
    """Base of all errors; ``str()`` is one sentence for the user, with the clause if there is one.

    Args:
        message: one sentence: the failure, the place, and the cure.
        clause: the clause of the IMPI 0.0 specification that decides, such as ``"2.3.5"``.
        peer: the peer at fault, in the user's words (``"client 1 (10.0.0.2)"``).
        octets: the octets in question, of which at most 32 are shown.
    """

    def __init__(
        self, message: str, *, clause: str = "", peer: str = "", octets: bytes = b""
    ) -> None:
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
    """Return the known word nearest to a word; empty: none is near."""
    import difflib  # only a mistake needs it

    return "".join(difflib.get_close_matches(word, [*known], 1))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that suggests the nearest known word; empty: none is near."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


_CURES = {
    errno.ENOENT: "; write its path, as it is seen from here",
    errno.EISDIR: "; name a file in it",
    errno.EACCES: "; 'chmod +r' lets you read it",
}


def unread(name: object, error: OSError, cure: str = "") -> UsageError:
    """Return the error of a file that cannot be read, with the cure."""
    end = f"; {cure}" if cure else _CURES.get(error.errno or 0, "")
    return UsageError(f"{name} cannot be read: {error.strerror}{end}")


class LocalProtocolError(ImpiError):
    """Our own side asked a state machine for something the protocol forbids: a bug of ours."""


class PeerError(ImpiError):
    """The other side broke the protocol."""


class Truncated(PeerError):
    """The other side closed the connection in the middle of something."""


class StartupError(ImpiError):
    """Start-up (chapter 2) ended without a job."""


class NoServer(StartupError):
    """Nobody listens at the address of the server."""


class JobError(ImpiError):
    """A running job cannot go on."""

    code = 1
    """Exit code of the whole job."""


class HostRefused(JobError):
    """A host of the job was refused, or refuses us; it is reported at once, by both ends."""


class ServerLost(JobError):
    """The server ended without a word, or is silent; the caller adds the phase of the job."""


class HungUp(PeerError, JobError):
    """A peer has closed a connection before both were ready: it was ended, or breaks 3.8.

    Usually the job is ending, so this is reported as late as a lost peer: the cause comes first.
    """


class LaunchError(ImpiError):
    """A process could not be started, or ended badly."""


class LabError(ImpiError):
    """The testbed itself failed; no verdict on the cell follows from it."""


class JobEnded(JobError):
    """The server has ended the job and said why.

    Args:
        message: the sentence that all clients get.
        code: exit code of the whole job.
    """

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
