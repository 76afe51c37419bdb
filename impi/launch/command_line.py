"""Split impirun's command line: options, then a program; colons separate clients.

An unknown option raises a :class:`.UsageError` that names the cure. For an option of MPICH's, Open
MPI's or Intel MPI's mpiexec, the cure is what to write here instead. For any other, the cure is an
option that looks like it. argparse checks the values later: it cannot read several clients, and
does not know those mpiexecs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from impi.base.errors import UsageError, did_you_mean
from impi.base.records import record
from impi.protocol.options import OPTIONS

SEPARATOR: Final = ":"
"""The word between the clients of a command line, as between the programs of mpiexec."""
VALUES: Final[Mapping[str, int]] = (
    {
        flag: int(option.parse is not bool)
        for option in OPTIONS.values()
        for flag in option.flags.split()
    }
    | dict.fromkeys(("-client", "--client"), 2)
    | dict.fromkeys(("-h", "--help", "--version"), 0)
)
"""The number of values that follow each option."""

_NAMES: Final = {
    flag: name for name, option in OPTIONS.items() for flag in option.flags.split()
}
# Client options that hold for the whole job: only the first part may have them.
_FIRST_ONLY: Final = ("heartbeat_timeout_s", "resilient")
_ENVIRONMENT: Final = "write -x NAME=VALUE in each part, or export the variable"
_PLACES: Final = "name machines and their slots by -host a:2,b:2"
_BINDING: Final = "procs are placed by slots; bind them by variables of the MPI library"
# Options of MPICH's, Open MPI's and Intel MPI's mpiexec, and what to write here instead.
_OF_OTHERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "env",
            "genv",
            "envlist",
            "genvlist",
            "envall",
            "genvall",
            "envnone",
            "genvnone",
        ),
        _ENVIRONMENT,
    ),
    **dict.fromkeys(
        ("hosts", "ppn", "perhost", "npernode", "N", "rr", "rankfile", "rf"), _PLACES
    ),
    **dict.fromkeys(
        (
            "map-by",
            "rank-by",
            "bind-to",
            "bind-to-core",
            "binding",
            "cpu-set",
            "bycore",
        ),
        _BINDING,
    ),
    **dict.fromkeys(
        ("f", "hostfile", "machinefile", "machine", "default-hostfile"),
        "name a file by --hostfile FILE",
    ),
    **dict.fromkeys(
        ("wdir", "wd"),
        "procs run in the folder where impirun is started: change to it first",
    ),
    **dict.fromkeys(
        ("prepend-rank", "tag-output", "output"), "-l marks each line of output"
    ),
    **dict.fromkeys(
        ("configfile", "app"),
        "clients in a file are started by -server COUNT -file APPFILE",
    ),
    **dict.fromkeys(
        ("oversubscribe", "nooversubscribe", "allow-run-as-root"),
        "leave it out, it is not needed",
    ),
    **dict.fromkeys(("mca", "gmca", "pmca"), "export OMPI_MCA_NAME=VALUE"),
    **dict.fromkeys(
        ("q", "quiet"), "leave it out, impirun says nothing of itself while all is well"
    ),
    "c": "the number of procs is -n N",
    "path": "name the program with its folder",
}


@record
class Given:
    """One option of a command line, with its values."""

    name: str  # its key in OPTIONS; empty: it has none there
    words: tuple[str, ...]

    @property
    def value(self) -> str:
        """The last value of the option, which may follow an equals sign."""
        word = self.words[-1]
        return word if len(self.words) > 1 else word.partition("=")[2]

    @property
    def of_server(self) -> bool:
        return self.name in OPTIONS and OPTIONS[self.name].side == "server"


@record
class Part:
    """One client of a command line."""

    given: tuple[Given, ...]
    program: tuple[str, ...]  # with its arguments

    def values(self, name: str) -> list[str]:
        return [each.value for each in self.given if each.name == name]


def split(words: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the words between colons; without a colon all are one part."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == SEPARATOR:
            parts.append([])
        else:
            parts[-1].append(word)

    return tuple(map(tuple, parts))


def read_part(words: Sequence[str]) -> Part:
    """Return the options of one client, and the program that follows them.

    Raises:
        UsageError: an option is unknown; the sentence names the one that could be meant.
    """
    given, at = [], 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        flag = _flag_of(words[at])
        end = at + 1 + (VALUES[flag] if flag == words[at] else 0)
        given.append(Given(_NAMES.get(flag, ""), tuple(words[at:end])))
        at = end

    return Part(tuple(given), tuple(words[at:]))


def _flag_of(word: str) -> str:
    flag = word.partition("=")[0]
    for known in (word, flag):
        if known in VALUES:
            return known

    # As in argparse: a value without a blank (-n4), or several letters (-lv).
    joined = VALUES.get(word[:2]) == 1 or all(
        VALUES.get(f"-{letter}") == 0 for letter in word[1:]
    )
    if joined and len(word) > 2 and flag.lstrip("-") not in _OF_OTHERS:
        return word[:2]

    raise UsageError(f"there is no option {flag}{_cure(flag)}")


def _cure(word: str) -> str:
    if cure := _OF_OTHERS.get(word.lstrip("-")):
        return f": {cure}"

    return did_you_mean(word, VALUES)


def read_parts(words: Sequence[str]) -> tuple[Part, ...]:
    """Return the clients of a command line; a client without a program takes the next client's.

    Raises:
        UsageError: a part is empty, no program follows, there are more parts than a job may have
            clients, or an option of the whole job stands after the first part.
    """

    pieces, most = split(words), (OPTIONS["count"].range or (1, 1))[1]
    if len(pieces) > most:
        raise UsageError(
            f"a job has at most {most} clients, and colons part {len(pieces)}",
            clause="2.3.5",
        )

    for number, piece in enumerate(pieces):
        if not piece and len(pieces) > 1:
            raise UsageError(
                f"client {number} is empty: leave out a colon, or write its options and program there"
            )

    parts = [read_part(piece) for piece in pieces]

    program: tuple[str, ...] = ()
    for number, part in reversed(list(enumerate(parts))):
        program = part.program or program
        parts[number] = Part(part.given, program)

    if not parts[-1].program:
        raise UsageError(
            "no program was named: write it after the options of the last client"
        )

    # A later part may repeat such an option of the first part with the same value.
    for number, part in enumerate(parts[1:], 1):
        for each in part.given:
            if (each.of_server or each.name in _FIRST_ONLY) and each not in parts[
                0
            ].given:
                title = each.words[0].partition("=")[0]
                raise UsageError(
                    f"client {number}: {title} is for the whole job: it stands before the first program"
                )

    return tuple(parts)
