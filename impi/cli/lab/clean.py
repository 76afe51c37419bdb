"""``impilab clean``."""

from __future__ import annotations

import argparse

from impi.cli.lab.keep import seconds
from impi.cli.lab.select import add_backend
from impi.errors import UsageError
from impi.testbed.backends.lifecycle.cleanup import Choice, clean

_LABELS = ("run", "lab", "name", "user", "parties", "topology")
CLEAN_EPILOG = f"""
What lives is spared: labs of runs under way, and those that were put up or kept, until their time is over. Several
options narrow it. Labels are {", ".join(_LABELS)}:
  impilab clean --label run=20261121T083654-c321
  impilab clean --label parties=mpich+openmpi --older-than 2h
  impilab clean --owner alice                        all that this user's processes left
"""


def add_clean(verb: argparse.ArgumentParser) -> None:
    """The options of ``clean``."""
    verb.set_defaults(handler=_clean)
    verb.add_argument("--label", action="append", default=[], metavar="NAME[=VALUE]", help="only labs with that label")
    verb.add_argument("--older-than", metavar="TIME", help="only labs of that age, such as 90s, 15m, 2h, 1d")
    verb.add_argument("--owner", default="", metavar="WHO", help="only a user's, or a process's by its number")
    verb.add_argument("--all", action="store_true", help="those of live runs, too")
    add_backend(verb)


def _clean(options: argparse.Namespace) -> int:
    labels: dict[str, str | None] = {}
    for text in options.label:
        name, equals, value = text.partition("=")
        if name not in _LABELS or (equals and not value):
            raise UsageError(f"--label {text}: write NAME or NAME=VALUE, with a name of {', '.join(_LABELS)}")
        labels[name] = value if equals else None
    age_s = seconds("--older-than", options.older_than) if options.older_than is not None else 0.0
    choice = Choice(older_than_s=age_s, labels=labels, owner=options.owner, everything=options.all)
    removed = clean(options.choose(options.backend).inventory, choice)
    for name in removed:
        print(f"removed {name}")
    print(f"{len(removed)} removed")
    return 0
