"""The implementation under test, as the user gives it: a command, an interpreter, limits."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Final

from impi.conform.configuration import Configuration
from impi.errors import UsageError

INTERPRETER: Final = File(__file__).with_name("interpreter.py")
"""What the implementation under test runs, unless it is given another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """The implementation under test, as the user gives it."""

    command: str = ""
    """With ``{server}``, ``{client}``, ``{np}``, ``{interpreter}``; empty: started by hand."""
    interpreter: str = str(INTERPRETER)
    procs: int = 2
    interface: str = "127.0.0.1"
    port: int = 0
    patience_s: float = 3.0
    start_s: float = 20.0
    environment: Mapping[str, str] = field(default_factory=dict)
    announce: Callable[[str], None] = lambda _text: None
    """Told what to start by hand, if there is no command."""

    def argv(self, setup: Configuration, server: str) -> list[str]:
        """Return the command for one job.

        Raises:
            UsageError: names in braces stand for nothing, or one that varies is not there.
        """
        varying = ["client"] if self.port else ["client", "server"]
        for name in varying:
            if f"{{{name}}}" not in self.command:
                raise UsageError(f"--client: the command has no {{{name}}}, which is another in each job")
        known = {
            "server": server,
            "client": setup.client,
            "np": setup.procs,
            "interpreter": f"{shlex.quote(self.interpreter)} {setup.control}",
            "xsize": -1 if setup.xsize is None else setup.xsize,
            "maxlinear": -1 if setup.maxlinear is None else setup.maxlinear,
        }
        unknown = [name for name in re.findall(r"\{(\w*)\}", self.command) if name not in known]
        if unknown:
            raise UsageError(f"--client: nothing stands for {{{unknown[0]}}}; there are {', '.join(known)}")
        return shlex.split(re.sub(r"\{(\w+)\}", lambda found: str(known[found[1]]), self.command))
