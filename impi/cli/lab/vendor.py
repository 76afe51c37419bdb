"""``impilab new vendor``, ``check`` and ``vendor-ci``: the verbs for authors of MPI libraries."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from impi.base.exit_codes import ExitCode
from impi.base.manifests import manifest, new_vendors
from impi.cli.ending import JSON, Declared, Verbs, add_verb, show, show_rows
from impi.cli.lab.keep import check_health
from impi.cli.lab.select import BACKEND
from impi.lab.nodes.new_vendor import new_vendor
from impi.lab.run.vendor_check import check

CI_EPILOG: Final = """
runs these, and ends with the worst exit code of:
  impilab check NAME
  impilab run --with NAME --tier pairs
  impilab run --with NAME --tier pairs --prove-unsupported    where the manifest declares something
"""


def add_vendor_verbs(verbs: Verbs, run: Callable[[list[str]], int]) -> None:
    """Add the verbs to the command line of ``impilab``; ``run`` runs a command line of impilab."""

    new: Declared = {
        "what": {"choices": ("vendor",)},
        "name": {
            "metavar": "NAME",
            "help": "name of the vendor, in small letters and digits",
        },
    }
    add_verb(verbs, "new", _new, new, help="write the folder of a new vendor")
    known: Declared = {
        "name": {"metavar": "NAME", "help": "a vendor, or NAME@VERSION"},
        **BACKEND,
    }
    text = "check a vendor against numbered requirements, with the cure for each"
    add_verb(verbs, "check", _check, {**known, **JSON}, help=text)
    text = "run everything that a vendor's own CI needs"
    add_verb(
        verbs,
        "vendor-ci",
        lambda options: _vendor_ci(options, run),
        known,
        help=text,
        epilog=CI_EPILOG,
    )


def _new(options: argparse.Namespace) -> int:
    show(new_vendor(new_vendors(), options.name))
    print(f"edit these, then: impilab check {options.name}")
    return 0


def _check(options: argparse.Namespace) -> int:
    manifest(options.name)
    backend = options.choose(options.backend)
    check_health(backend)

    if options.json:
        requirements = [*check(options.name, backend)]
        show_rows("requirements", map(asdict, requirements))
        return (
            ExitCode.OK if all(found.ok for found in requirements) else ExitCode.FAILED
        )

    red = untried = 0
    for found in check(options.name, backend):
        mark = {True: "✓", False: "✗", None: "–"}[found.ok]

        print(f"{found.number} {mark} {found.text}: {found.evidence}", flush=True)
        if found.ok is False:
            print(f"      cure: {found.cure}", flush=True)

        red += found.ok is False
        untried += found.ok is None

    told = ", ".join(
        f"{count} {what}"
        for count, what in ((red, "not fulfilled"), (untried, "not tried"))
        if count
    )
    print(f"{options.name}: {told or 'every requirement is fulfilled'}")

    # A requirement that could not be tried is not fulfilled.
    return ExitCode.FAILED if red or untried else 0


def _vendor_ci(options: argparse.Namespace, run: Callable[[list[str]], int]) -> int:
    known = manifest(options.name)
    backend = ["--backend", options.backend] if options.backend else []
    selection = ["run", "--with", options.name, "--tier", "pairs", *backend]

    lines = [["check", options.name, *backend], selection]
    if known.unsupported:
        lines.append([*selection, "--prove-unsupported"])

    worst = 0
    for line in lines:
        print(f"== impilab {' '.join(line)}", flush=True)

        worst = max(worst, run(line))
        if worst and line[0] == "check":
            print(
                f"impilab: {options.name} does not fulfil its requirements, so no cell was run",
                file=sys.stderr,
            )
            return worst

    return worst
