"""The implementation under test: the user's command for it, and the process that runs it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Final

from impi.base.errors import LabError, LaunchError, UsageError
from impi.base.remote.commands import Commands, this_machine
from impi.base.remote.supervised import Completed, Supervised
from impi.lab.conform.job.configuration import Configuration

INTERPRETER: Final = File(__file__).with_name("interpreter.py")
"""The program that the implementation under test runs, unless the user names another one."""
_SHOWN: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """The implementation under test, as the user gives it."""

    # With ``{server}``, ``{client}``, ``{np}``, ``{interpreter}``; empty: started by hand
    command: str = ""
    interpreter: str = str(INTERPRETER)
    procs: int = 2
    interface: str = "127.0.0.1"
    port: int = 0
    patience_s: float = 3.0
    start_s: float = 20.0
    environment: Mapping[str, str] = field(default_factory=dict)
    # called with what to start by hand, if there is no command
    announce: Callable[[str], None] = lambda _text: None

    def argv(self, setup: Configuration, server: str) -> list[str]:
        """Return the command for one job.

        Raises:
            UsageError: names in braces stand for nothing, or one that varies is not there.
        """

        varying = ["client"] if self.port else ["client", "server"]
        missing = [
            f"{{{name}}}" for name in varying if f"{{{name}}}" not in self.command
        ]
        if missing:
            raise UsageError(
                f"--client: the command has no {' and no '.join(missing)}, other in each job; write "
                "for example 'impirun -client {client} {server} -np {np} {interpreter}'"
            )

        known = {
            "server": server,
            "client": setup.client,
            "np": setup.procs,
            "interpreter": f"{shlex.quote(self.interpreter)} {setup.control}",
            "xsize": -1 if setup.xsize is None else setup.xsize,
            "maxlinear": -1 if setup.maxlinear is None else setup.maxlinear,
        }

        unknown = [
            name for name in re.findall(r"\{(\w*)\}", self.command) if name not in known
        ]
        if unknown:
            raise UsageError(
                f"--client: there is no word {{{unknown[0]}}}; there are {', '.join(known)}"
            )

        return shlex.split(
            re.sub(r"\{(\w+)\}", lambda found: str(known[found[1]]), self.command)
        )


class TestedProcess:
    """The command of one job; nothing of it is left after :meth:`close`.

    Args:
        tested: the implementation.
        commands: starts processes; None: of this machine.
        wait: serves connections until something is so, or some seconds are over.
    """

    __test__ = False

    def __init__(
        self,
        tested: Tested,
        commands: Commands | None,
        wait: Callable[[Callable[[], bool], float], bool],
    ) -> None:
        self._tested = tested
        self._commands = commands
        self._wait = wait
        self._running: Supervised | None = None

    def start(
        self, setup: Configuration, server: str, authentication: Mapping[str, str]
    ) -> None:
        """Start the command, or say what to start by hand.

        Args:
            setup: the configuration of the job.
            server: HOST:PORT.
            authentication: variables of a client that may join (IMPI 2.3.3), or is to be refused.

        Raises:
            UsageError: names in braces of the command stand for nothing.
            LaunchError: it cannot be started.
        """

        tested = self._tested
        if not tested.command:
            start = f"{tested.interpreter} {setup.control}"
            key = " ".join(f"{name}={value}" for name, value in authentication.items())
            where = (
                f"start client {setup.client} at {server} with {key} in its environment"
            )
            tested.announce(f"{where}, {setup.procs} procs of: {start}")

            return

        commands = self._commands or this_machine(dict(os.environ))
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("IMPI_AUTH")
        }
        environ |= {**tested.environment, **authentication}
        argv = tested.argv(setup, server)
        self._running = commands.start(
            argv, env=environ, only=True, cwd=str(File.cwd()), grace_s=1.0
        )

    def ended(self) -> Completed | None:
        """The outcome of the command, or None while it runs, or if it was started by hand."""
        return self._running.poll() if self._running is not None else None

    def said(self) -> str:
        """The end of the implementation's output so far."""
        text = (
            b""
            if self._running is None
            else self._running.stderr() + self._running.stdout()
        )
        return " / ".join(text.decode("utf-8", "replace").split("\n"))[-_SHOWN:].strip(
            " /"
        )

    def end(self) -> str:
        """Return how the implementation has ended, and what it said; empty while it goes on."""
        ended = self.ended()
        if ended is None:
            return ""

        return f"the implementation has ended with {ended.code}; it said: {self.said()}"

    def await_end(self, timeout_s: float) -> Completed | None:
        """Wait for the end of the command; None: it goes on, or is by hand."""
        if self._running is None:
            return None

        self._wait(lambda: self.ended() is not None, timeout_s)

        return self.ended()

    def close(self) -> tuple[str, ...]:
        """End whatever is left; return the leftovers of the command. Idempotent.

        Raises:
            LabError: it cannot be ended.
        """
        running, self._running = self._running, None
        if running is None:
            return ()

        try:
            return running.stop().leftovers
        except LaunchError as error:
            raise LabError(
                f"the implementation under test cannot be ended: {error}"
            ) from error
