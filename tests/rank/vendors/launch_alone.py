"""Start a program's procs by a vendor's launcher, with control connection, without server.

Arguments: VENDOR N PROGRAM...; the exit code is the program's.
"""

import os
import selectors
import sys
import time
from collections.abc import Callable

from impi.base.manifests import manifest
from impi.launch.client.children import Children, exit_code
from impi.launch.client.control import Control
from impi.launch.start.launchers import HydraLauncher, PrteLauncher, PureLauncher
from impi.launch.start.nodes import Node
from impi.launch.start.prefix import find
from impi.launch.start.program import Launcher, Program, base_environment
from impi.rank.vendors.invitation import Invitation

DEADLINE_S = 100.0


def main() -> int:
    vendor, size, *argv = sys.argv[1:]
    known = manifest(vendor)
    launchers: dict[str, Callable[[], Launcher]] = {
        "none": PureLauncher,
        "hydra": lambda: HydraLauncher(known, find(vendor, "", os.environ)),
        "prte": lambda: PrteLauncher(known, find(vendor, "", os.environ)),
    }
    launcher = launchers[known.library.launcher]()
    selector = selectors.DefaultSelector()
    control = Control(
        "127.0.0.1", int(size), selector, lambda text: print(text, file=sys.stderr)
    )
    join: Invitation = {
        "control": control.endpoint,
        "token": control.token,
        "vendor": vendor,
        "server": "127.0.0.1",
        "interface": "127.0.0.1",
    }
    program = Program(
        argv=(sys.executable, *argv),
        nodes=(Node("localhost", int(size)),),
        environ=base_environment(os.environ),
        join=join,
    )
    children = Children(launcher.commands(program), selector)

    def turn(seconds: float) -> None:
        for key, _ in selector.select(seconds):
            key.data()

    deadline = time.monotonic() + DEADLINE_S
    told = False
    children.start()
    while (
        children.running
        and not children.failure
        and not children.error
        and time.monotonic() < deadline
    ):
        turn(1.0)
        if control.rank0 and not told:
            told = True
            children.initialised()
            control.answer({})
    late = children.running and not children.failure
    children.end(turn)
    children.close()
    control.close()
    if children.error or late:
        print(children.error or f"not ended within {DEADLINE_S} s", file=sys.stderr)
        return 99
    return exit_code(children.failure.status) if children.failure else 0


if __name__ == "__main__":
    sys.exit(main())
