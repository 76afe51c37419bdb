"""``python tests/fuzz/guided.py TARGET RUNS [libFuzzer options]``: led by coverage (atheris).

The generator's every choice is read from the octets that libFuzzer mutates, so what it learns is
which choices reach new code. Octets alone, without the generator, got nowhere: of 60 000 none
became a client.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter

import atheris
from fuzz_run import Choices

NAMES = (
    "server",
    "client",
    "host",
    "secret-server",
    "secret-client",
    "door",
    "control",
)
MODULES = {name: f"fuzz_{name.replace('-', '_')}" for name in NAMES}
INSTRUMENTED = [
    "impi.protocol.wire",
    "impi.protocol.startup",
    "impi.protocol.transfer",
    "impi.rank.doors",
    "impi.protocol.proofs",
    "impi.launch.client.control",
]


def main(argv: list[str]) -> None:
    """Fuzz, then say which states were reached; a finding ends the process with a traceback."""
    name, runs = argv[1], int(argv[2])
    with atheris.instrument_imports(include=INSTRUMENTED, enable_loader_override=False):
        play = importlib.import_module(MODULES[name]).play
    reached: Counter[str] = Counter()
    counts = Counter(inputs=0, deep=0)

    def one(octets: bytes) -> None:
        counts["inputs"] += 1
        counts["deep"] += bool(play(Choices(octets), reached))
        # libFuzzer ends the process without Python's leave
        if counts["inputs"] == runs:
            share = 100 * counts["deep"] / runs
            print(
                f"{name}, guided: {runs} inputs, {share:.1f} % of them deep, {len(reached)} states",
                flush=True,
            )
            for state, times in sorted(reached.items()):
                print(f"    {times:>9}  {state}", flush=True)

    options = [
        f"-runs={runs}",
        "-max_len=4096",
        "-timeout=60",
        "-rss_limit_mb=1024",
        "-verbosity=0",
    ]
    atheris.Setup([argv[0], *options, *argv[3:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
