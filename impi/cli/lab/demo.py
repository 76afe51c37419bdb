"""``impilab demo``: a first verdict, on this machine only, and commands to go on with."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Final

from impi.base.manifests import SHARED
from impi.cli.ending import Verbs, add_verb

_CELLS: Final = ("startup.hello", "p2p.ring", "coll.allreduce")
_ON: Final = f"""
That was one MPI job of two clients, three times. Go on:
  impilab doctor                                   which MPI libraries and engines are here
  impilab run p2p.ring --backend local             MPICH, Open MPI and Python, all pairs
  impilab run p2p.ring                             the same in containers, with captures, where Docker is
  impilab run --program {SHARED}/examples/pi.py --parties pure+pure
  impirun -n 2 --vendor pure : -n 2 {SHARED}/examples/hello/hello.py
  impilab new vendor acme                          your own MPI library"""


def add_demo(verbs: Verbs, run: Callable[[list[str]], int]) -> None:
    """Add the verb to the command line of ``impilab``; ``run`` runs a command line of impilab."""
    text = "a first run on this machine: no container, no MPI library, a few seconds"
    add_verb(verbs, "demo", partial(_demo, run), {}, help=text)


def _demo(run: Callable[[list[str]], int], _options: argparse.Namespace) -> int:
    code = run(
        ["run", "--backend", "local", *(f"{case}/pure+pure/1x2+1x2" for case in _CELLS)]
    )
    if code == 0:
        print(_ON)

    return code
