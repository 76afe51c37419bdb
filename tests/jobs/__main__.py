"""``python tests/jobs``: eight threads in each proc of a job do all that MPI has, for a given time.

Each client prints how many rounds of each kind its threads have done; a message that is lost,
doubled, reordered or changed, a wrong sum, an error and a hang are found.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("programs") / "many_threads.py"
LATE_S = 240.0
"""How long a job may take beyond its time. One that hangs shows where, and ends, before that."""


def run(clients: list[str], what: str, seed: str, seconds: float, threads: int) -> int:
    """Run one job; return 0 if all of it was right."""
    environ = {**os.environ, "IMPI_AUTH_NONE": "1"}
    impirun = [sys.executable, "-m", "impi.cli.impirun"]
    with ExitStack() as stack:
        server = stack.enter_context(
            subprocess.Popen(
                [*impirun, "-server", str(len(clients)), "--interface", "127.0.0.1"],
                env=environ,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(server.terminate)
        assert server.stdout is not None
        where = server.stdout.readline().strip()
        parts = []
        for rank, client in enumerate(clients):
            vendor, _, procs = client.partition(":")
            command = [*impirun, "-client", str(rank), where, "-np", procs or "1"]
            program = [str(PROGRAM), what, seed, f"{seconds:g}s", str(threads)]
            part = stack.enter_context(
                subprocess.Popen(
                    [*command, "--vendor", vendor, *program],
                    env=environ,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(part.terminate)
            parts.append(part)
        right = True
        for part in parts:
            try:
                out, _ = part.communicate(timeout=seconds + LATE_S)
            except subprocess.TimeoutExpired:
                print("FOUND: a hang")
                return 1
            sys.stdout.write(out)
            told = [line for line in out.splitlines() if line.startswith("wrong: ")]
            right &= part.returncode == 0 and set(told) == {"wrong: []"}
    print("all right" if right else f"FOUND: see above; repeat it with --seed {seed}")
    return 0 if right else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/jobs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument(
        "--what",
        default="all",
        help="messages, exchange, communicators, collectives, kinds, or all in turn",
    )
    parser.add_argument(
        "clients",
        nargs="*",
        default=["mpich:1", "openmpi:1", "pure:2"],
        help="VENDOR:PROCS of each client (default: %(default)s)",
    )
    args = parser.parse_args()
    # So that the jobs end, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    return run(args.clients, args.what, args.seed, args.seconds, args.threads)


if __name__ == "__main__":
    sys.exit(main())
