"""What ``impicc`` and ``impifort`` have in common: their arguments are a compiler's."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from impi.base.errors import ImpiError
from impi.base.exit_codes import ExitCode

CommandOf: TypeAlias = Callable[[Sequence[str], Mapping[str, str]], list[str]]
"""Of the compiler's arguments and the environment: its command with header and library."""
_NO_LINK: Final = frozenset(("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"))


def links(arguments: Sequence[str]) -> bool:
    """Return whether the compiler makes a program or library, which needs ours."""
    return not _NO_LINK.intersection(arguments)


def run(name: str, usage: str, command_of: CommandOf, argv: Sequence[str] | None) -> int:
    """Run the compiler; the exit code is its own, or 1 where it or the library is missing."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage)
        return ExitCode.OK if arguments else ExitCode.USAGE
    try:
        command = command_of([word for word in arguments if word != "-show"], os.environ)
    except ImpiError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return ExitCode.FAILED
    if "-show" in arguments:
        print(shlex.join(command))
        return ExitCode.OK
    return subprocess.run(command, check=False).returncode
