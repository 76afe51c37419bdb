"""The witness of ranks that report nothing: what it sees of processes from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from impi.lab.evidence.witness_reports import read_ranks
from impi.lab.programs import witness

_PROGRAM = """
import mmap, sys
file = open(sys.argv[1], "rb")
mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sys.stdin.read()
"""


def test_what_a_process_had_mapped_is_known_after_its_end(tmp_path: Path) -> None:
    library = tmp_path / "libmpi.so.12"
    library.write_bytes(b"x" * 4096)
    cell = tmp_path / "cell"
    cell.mkdir()
    rank = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(library)], stdin=subprocess.PIPE
    )
    wrap = cell / "wrap-1.json"
    wrap.write_text(json.dumps({"pid": rank.pid, "status": None, "local": 1}))
    argv = [
        sys.executable,
        "-I",
        "-S",
        witness.__file__,
        str(cell),
        "1",
        "60",
        "--outside",
    ]
    looks = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert looks.stdout is not None
    first = looks.stdout.readline()  # once it has seen the library, and before the end
    assert json.loads(first)["kind"] == "identity"
    assert rank.stdin is not None
    rank.stdin.close()
    rank.wait(30)
    wrap.with_suffix(".part").write_text(
        json.dumps({"pid": rank.pid, "status": 0, "ended": time.time(), "local": 1})
    )
    wrap.with_suffix(".part").replace(wrap)
    rest = looks.stdout.read()
    looks.stdout.close()
    assert looks.wait(30) == 0
    (seen,) = read_ranks("c0n0", 0, first + rest, [0, 1])
    assert (seen.rank, seen.status) == (1, 0)
    assert seen.process.libraries is not None
    assert list(seen.process.libraries) == [str(library)]
    assert os.path.realpath(sys.executable) in seen.process.ancestors
