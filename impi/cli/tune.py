"""``impi tune``: measure, predict, compare, and write the table of decisions for jobs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Final

from impi.base.errors import LabError, UsageError
from impi.cli.ending import Verbs, add_verb, declare
from impi.protocol.decisions import FORMAT

_DEFAULT_LAYOUT: Final = "pure:1,pure:1,pure:1"
_HELP: Final = """\
One proc of each client takes part. The parameters of the pLogP model (latency, overheads, gap) are measured between
pairs of clients, with the additional time of a message in a collective (c). Closed formulas then predict the time of
each algorithm for any number of clients and octets. The table shows predictions beside measurements among the clients
of the layout (> the model's choice, * the fastest). If clients share cores, measured times include waiting for a core,
and predicted times do not: use the choice for clients that share no cores.

examples:
  impi tune --layout mpich:1,openmpi:1,pure:1 -o tuning.json
  impirun -client 0 HOST:PORT --tuning tuning.json ...       # one client's table serves all; or IMPI_TUNING

Between machines, start the measuring program as a job like any other. Rank 0 writes FILE on its machine:
  impirun -client R HOST:PORT --vendor V python -m impi.tools.tune.measure FILE
  impi tune --from FILE -o tuning.json

The exit code is 0; 1 if the job failed; 4 for a wrong command line."""


def add_tune(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impi``."""
    parser = add_verb(
        verbs,
        "tune",
        tune,
        {
            "-o --output": {
                "metavar": "FILE",
                "help": "write the table of decisions, for --tuning of impirun",
            },
            "--quick": {"action": "store_true", "help": "a few repetitions only"},
        },
        help="measure the network between clients and choose algorithms of collectives",
        description="Measure the network between clients, and choose the algorithms of collectives by a model of it.",
        epilog=_HELP,
        allow_abbrev=False,
    )
    declare(
        parser.add_mutually_exclusive_group(),
        {
            "--layout": {
                "metavar": "LIST",
                "help": f"VENDOR:PROCS,... here (default: {_DEFAULT_LAYOUT})",
            },
            "--from": {
                "dest": "measured",
                "metavar": "FILE",
                "help": "use an earlier measurement",
            },
        },
    )


def tune(options: argparse.Namespace) -> int:
    """Run the verb; return the exit code.

    Raises:
        UsageError: a file or an option is wrong.
        LabError: rich is not installed.
    """

    # Here and not at the head: other verbs of impi run without rich.
    try:
        from rich.console import Console

        from impi.tools.tune import table
    except ModuleNotFoundError as error:
        if error.name != "rich":
            raise

        raise LabError(
            "impi tune shows tables by rich, which is not installed: pip install impilab"
        ) from None

    # Loaded on use, since other verbs of impi need none of it.
    from impi.tools.tune.choice import decide
    from impi.tools.tune.jobs import measure, parse_layout, read_measurement
    from impi.tools.tune.plogp import Parameters, contradiction, typical

    if options.output:
        _check_writable(Path(options.output))

    if options.measured:
        measurement = read_measurement(Path(options.measured))
    else:
        layout = parse_layout(
            _DEFAULT_LAYOUT if options.layout is None else options.layout
        )
        print(
            "impi tune: measuring, for a minute at most if the machine is idle",
            file=sys.stderr,
            flush=True,
        )
        measurement = measure(layout, quick=options.quick)
        _warn_if_crowded(len(layout))

    try:
        clients = int(measurement["clients"])
        parameters = typical(
            [Parameters.of_value(pair["parameters"]) for pair in measurement["pairs"]]
        )
        compared = table.comparison(parameters, clients, measurement["measured"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"{options.measured} is not a measurement of impi tune; name a file that "
            "'python -m impi.tools.tune.measure FILE' has written"
        ) from None

    if said := contradiction(parameters):
        print(
            f"impi tune: {said}, which pLogP rules out: if the machine was busy, measure again",
            file=sys.stderr,
        )

    decisions = decide(parameters)

    console = Console()
    for shown in (
        table.network(parameters),
        compared,
        table.decided(decisions, clients),
    ):
        console.print(shown)

    if options.output:
        origin = {name: measurement[name] for name in ("clients", "pairs", "measured")}
        value = {
            "decisions": decisions.to_value(),
            "parameters": parameters.to_value(),
            **origin,
        }
        Path(options.output).write_text(
            json.dumps({"format": FORMAT, **value}, indent=1) + "\n", encoding="utf-8"
        )
        console.print(f"{options.output} is for impirun --tuning", highlight=False)

    return 0


def _warn_if_crowded(clients: int) -> None:
    """Warn if clients share cores: parameters come from pairs of clients, and do not show that."""
    cores = len(os.sched_getaffinity(0))
    if clients > cores:
        told = f"there are more clients ({clients}) than cores ({cores}), which pairs of them do not notice"
        print(
            f"impi tune: {told}: measured times among all clients are longer than predicted ones",
            file=sys.stderr,
        )


def _check_writable(path: Path) -> None:
    try:
        # Appending nothing leaves a file that is there as it is.
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise UsageError(f"-o {path} cannot be written: {error.strerror}") from None
