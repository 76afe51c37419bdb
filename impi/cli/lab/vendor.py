"""``impilab new vendor``, ``check`` and ``vendor-ci``: a vendor's own verbs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, Final

from impi.cli.lab.keep import check_health
from impi.cli.lab.select import add_backend
from impi.exit_codes import ExitCode
from impi.manifests import manifest, vendors
from impi.testbed.lab.new_vendor import new_vendor
from impi.testbed.run.vendor_check import check

CI_EPILOG: Final = """
what it runs, and ends with the worst exit code of:
  impilab check NAME
  impilab run --with NAME --tier pairs
  impilab run --with NAME --tier pairs --prove-unsupported    where the manifest declares something
"""


def add_vendor_verbs(verbs: Any, run: Callable[[list[str]], int]) -> None:
    """Add the verbs to a parser's; ``run`` runs another command line of impilab."""
    verb = verbs.add_parser("new", help="write the folder of a new vendor")
    verb.add_argument("what", choices=("vendor",))
    verb.add_argument("name", metavar="NAME", help="small letters and digits")
    verb.set_defaults(handler=_new)
    verb = verbs.add_parser("check", help="examine a vendor by numbered requirements, with the cure for each")
    verb.add_argument("name", metavar="NAME", help="a vendor, or NAME@VERSION")
    add_backend(verb)
    verb.set_defaults(handler=_check)
    verb = verbs.add_parser(
        "vendor-ci",
        help="everything that a vendor's own CI runs",
        epilog=CI_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("name", metavar="NAME", help="a vendor, or NAME@VERSION")
    add_backend(verb)
    verb.set_defaults(handler=lambda options: _vendor_ci(options, run))


def _new(options: argparse.Namespace) -> int:
    images = vendors()[0].folder.parent
    for path in new_vendor(images, options.name):
        print(path)
    print(f"edit these, then: impilab check {options.name}")
    return 0


def _check(options: argparse.Namespace) -> int:
    manifest(options.name)
    backend = options.choose(options.backend)
    check_health(backend)
    red = 0
    for found in check(options.name, backend):
        mark = {True: "✓", False: "✗", None: "–"}[found.ok]
        print(f"{found.number} {mark} {found.text}: {found.evidence}", flush=True)
        if found.ok is False:
            print(f"      cure: {found.cure}", flush=True)
        red += found.ok is not True
    print(f"{options.name}: {'every requirement is fulfilled' if not red else f'{red} not fulfilled or not tried'}")
    return ExitCode.FAILED if red else 0


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
            print(f"impilab: {options.name} does not fulfil its requirements, so no cell was run", file=sys.stderr)
            return worst
    return worst
