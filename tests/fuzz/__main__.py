"""``python tests/fuzz``: ten million inputs to the server, a client, a host, and to who lets in.

The inputs come from a generator of our own, whose choices are random. Then atheris makes the
choices, led by coverage (guided.py). Last, anything comes as arguments, files and variables.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import fuzz_client
import fuzz_control
import fuzz_door
import fuzz_host
import fuzz_names
import fuzz_relay
import fuzz_secret_client
import fuzz_secret_server
import fuzz_server
from fuzz_run import Crash, Report, Target, run

TARGETS: dict[str, Target] = {
    "server": fuzz_server.play,
    "client": fuzz_client.play,
    "host": fuzz_host.play,
    "secret-server": fuzz_secret_server.play,
    "secret-client": fuzz_secret_client.play,
    "door": fuzz_door.play,
    "control": fuzz_control.play,
    "names": fuzz_names.play,
    "relay": fuzz_relay.play,
}
RARER = {
    "secret-server": 20,
    "secret-client": 4,
    "door": 20,
    "control": 20,
    "names": 20,
    "relay": 40,
}
"""Targets that get this part of the inputs only: each is several conversations, with proofs."""
_SLICE = 10_000


def _slice(name: str, seed: int, first: int, inputs: int) -> Report:
    return run(name, TARGETS[name], seed=seed, first=first, inputs=inputs)


def main() -> int:
    """Run the command line; 1 for a finding, or if too few inputs got deep."""
    parser = argparse.ArgumentParser(
        prog="python tests/fuzz", description="Fuzz the protocol's machines."
    )
    parser.add_argument(
        "--target", choices=TARGETS, action="append", help="which (default: all)"
    )
    parser.add_argument(
        "--inputs",
        type=int,
        default=3_400_000,
        help="for each target, fewer for slow ones (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first input"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes (default: %(default)s)",
    )
    parser.add_argument(
        "--guided",
        type=int,
        default=100_000,
        help="then this number by atheris (default: %(default)s)",
    )
    parser.add_argument(
        "--examples",
        type=int,
        default=5_000,
        help="inputs to each verb, each file and each variable; 0: none (default: %(default)s)",
    )
    args = parser.parse_args()
    reports = {name: Report(name) for name in args.target or TARGETS}
    slices = []
    for name in reports:
        end = args.first + -(-args.inputs // RARER.get(name, 1))
        slices += [
            (name, args.seed, at, min(_SLICE, end - at))
            for at in range(args.first, end, _SLICE)
        ]
    try:
        with ProcessPoolExecutor(args.jobs) as pool:
            for part in pool.map(_slice, *zip(*slices, strict=True)):
                report = reports[part.target]
                report.inputs += part.inputs
                report.deep += part.deep
                report.seconds += part.seconds
                report.peak = max(report.peak, part.peak)
                report.reached += part.reached
                print(
                    f"{report.target}: {report.inputs}",
                    end="\r",
                    file=sys.stderr,
                    flush=True,
                )
    except Crash as error:
        print(f"FOUND: {error}")
        return 1
    for report in reports.values():
        print("\n".join(report.lines()))
    shallow = [
        report.target for report in reports.values() if 2 * report.deep < report.inputs
    ]
    total = sum(report.inputs for report in reports.values())
    print(
        f"{total} inputs: no crash, no hang, memory bounded"
        + (f"; too shallow: {shallow}" if shallow else "")
    )
    if shallow or not _guided(list(reports), args.guided):
        return 1
    return 0 if args.target or not args.examples else _any_input(args.examples)


def _any_input(examples: int) -> int:
    """Give anything to all verbs, as files, as variables: as ``make test``, for longer."""
    folder = Path(__file__).parents[1] / "cli"
    tests = [str(folder / f"test_any_{what}.py") for what in ("input", "verb")]
    environ = {**os.environ, "IMPI_FUZZ_EXAMPLES": str(examples)}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", *tests]
    return subprocess.run(command, env=environ, check=False).returncode


def _guided(targets: list[str], runs: int) -> bool:
    """Fuzz by atheris in processes that libFuzzer ends itself; return whether all was well."""
    script = Path(__file__).with_name("guided.py")
    # Where libFuzzer writes what it found
    with tempfile.TemporaryDirectory() as folder:
        for target in targets if runs else ():
            argv = [
                sys.executable,
                str(script),
                target,
                str(-(-runs // RARER.get(target, 1))),
                f"-artifact_prefix={folder}/",
            ]
            done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                print(
                    f"FOUND in {target}, guided (or atheris is missing: make fuzz installs it):\n{done.stderr[-3000:]}"
                )
                return False
    return True


if __name__ == "__main__":
    sys.exit(main())
