"""The common part of ``impicc`` and ``impifort``, whose arguments are a compiler's."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from impi.base.errors import ImpiError
from impi.base.exit_codes import ExitCode

CommandOf: TypeAlias = Callable[[Sequence[str], Mapping[str, str]], list[str]]
"""Makes the compiler's command with header and library, from its arguments and the environment."""
_NO_LINK: Final = frozenset(("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"))


_SILENT_S: Final = 3.0


def _tell(name: str) -> None:
    print(
        f"{name}: compiling impi's own library, once for this Python; about half a minute",
        file=sys.stderr,
        flush=True,
    )


def links(arguments: Sequence[str]) -> bool:
    """Return whether the compiler links a program or library, which then needs ours."""
    return not _NO_LINK.intersection(arguments)


def run(
    name: str, usage: str, command_of: CommandOf, argv: Sequence[str] | None
) -> int:
    """Run the compiler; return its exit code, or 1 if the compiler or the library is missing.

    Args:
        name: name of the command, for sentences.
        usage: text for --help.
        command_of: makes the compiler's command.
        argv: the arguments; None: those of this process.
    """

    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage)
        return ExitCode.OK if arguments else ExitCode.USAGE

    # Only the first use on a machine compiles the library; later ones take it from the cache.
    told = threading.Timer(_SILENT_S, _tell, (name,))
    told.daemon = True
    told.start()
    try:
        command = command_of(
            [word for word in arguments if word != "-show"], os.environ
        )
    except ImpiError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return ExitCode.FAILED
    finally:
        told.cancel()

    if "-show" in arguments:
        print(shlex.join(command))
        return ExitCode.OK

    return subprocess.run(command, check=False).returncode
