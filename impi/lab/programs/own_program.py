"""A user's own program: the lab judges only what needs no plan of it.

The program is one file, which comes with the cell. It runs as ``__main__`` after the report of the
rank's identity, and its MPI calls are logged.
"""

from __future__ import annotations

import runpy
import sys

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
params = report.plan["params"]
path = report.folder / f"rank-{report.rank}" / params["name"]
path.parent.mkdir()
path.write_text(params["text"], "utf-8")
sys.argv = [str(path), *params["arguments"]]
sys.path.insert(0, str(path.parent))
code: object = 0
try:
    runpy.run_path(str(path), run_name="__main__")
# it has ended by itself, well or not; the others wait in the report's barrier
except SystemExit as end:
    code = end.code or 0
if not MPI.Is_finalized():
    report.done()
if code != 0:
    raise SystemExit(code)
