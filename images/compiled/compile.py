"""Compile programs in C for one ABI of MPI, and our library that they need.

Runs on a node, or in its image (``--image``, with ``image.json`` beside this file). The vendor's
own mpicc compiles for its ABI, impicc for the standard one. No other ABI's programs can be compiled
here: a node of that vendor makes them.
"""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
from pathlib import Path

from impi.cabi.library.build import library
from impi.cabi.tables.abi import IMPI_KEYS
from impi.cabi.tables.abi_tables import sonames
from impi.cli.impicc import command_of


def main(argv: list[str]) -> None:
    """Do what the arguments say: a JSON value, or ``--image``."""
    if argv == ["--image"]:
        _image(Path(__file__).parent)
        return
    print(json.dumps(_make(**json.loads(argv[0]))))


def _image(folder: Path) -> None:
    """Fill the folder of programs in the home of an image's user."""
    said = json.loads((folder / "image.json").read_text())
    sources = [str(path) for path in sorted(folder.glob("*.c"))]
    for abi in said["abis"]:
        own = said["prefix"] if abi == said["vendor"] else ""
        made = _make(abi, str(Path.home() / said["folder"] / abi), own, [own], "", sources)
        # Each rank reads the Python side of the library: not as text.
        compileall.compile_dir(Path(str(made["library"])).parent, quiet=1)


def _make(abi: str, out: str, own: str, prefixes: list[str], kept: str, sources: list[str]) -> dict[str, object]:
    """Return the path of our library, and the names of the programs in ``out``.

    Args:
        abi: the ABI.
        out: folder of the programs; that of the image (``kept``) becomes it where there is one.
        own: prefix of the node's own library if it has that ABI: then ours stands before it.
        prefixes: where a library with that ABI may be.
        kept: see ``out``; empty: none is to be used.
        sources: what to compile.
    """
    soname = sonames(abi)[0]
    behind = Path(own, "lib", soname).resolve() if own else Path()
    made = library(abi, os.environ, str(behind) if behind.name.startswith(soname) and behind.exists() else "")
    if kept and Path(kept).is_dir() and not Path(out).exists():
        Path(out).symlink_to(kept)
    for source in sources:
        _compile(abi, source, Path(out, Path(source).stem), [Path(each, "bin/mpicc") for each in prefixes if each])
    there = sorted(path.name for path in Path(out).iterdir()) if Path(out).exists() else []
    return {"library": str(made), "programs": there}


def _compile(abi: str, source: str, out: Path, compilers: list[Path]) -> None:
    """Nothing where this node has no compiler for that ABI."""
    flags = ["-O1", "-o", str(out), source]
    if abi == "standard":
        command = command_of(flags, os.environ)
    elif there := next((path for path in compilers if path.exists()), None):
        command = [str(there), *(f"-D{name}={value}" for name, value in IMPI_KEYS.items()), *flags]
    else:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
