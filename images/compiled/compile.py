"""Compile programs in C for one ABI of MPI, and our library that they need.

It runs on a node, or while the node's image is built (``--image``, with ``image.json`` beside this
file). The vendor's own mpicc compiles for the vendor's ABI, and impicc for the standard one.
Programs of another ABI cannot be compiled here: a node of that vendor makes them.
"""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from impi.cabi.library.build import library
from impi.cabi.tables.abi import IMPI_KEYS
from impi.cabi.tables.abi_tables import sonames
from impi.cli.impicc import command_of


def main(argv: list[str]) -> None:
    """Compile as the argument says, which is a JSON value or ``--image``."""
    if argv == ["--image"]:
        _image(Path(__file__).parent)
        return
    print(json.dumps(_make(**json.loads(argv[0]))))


def _image(folder: Path) -> None:
    """Fill the folder of programs in the home of the image's user."""
    said = json.loads((folder / "image.json").read_text())
    sources = [str(path) for path in sorted(folder.glob("*.c"))]
    for abi in said["abis"]:
        own = said["prefix"] if abi == said["vendor"] else ""
        made = _make(
            abi, str(Path.home() / said["folder"] / abi), own, [own], "", sources
        )
        if own:
            # Programs with a profiler, and those that open libmpi, cannot have ours before theirs.
            library(abi, os.environ)
        # Each rank reads the Python side of the library: not as text.
        compileall.compile_dir(Path(str(made["library"])).parent, quiet=1)


def _make(
    abi: str, out: str, own: str, prefixes: list[str], kept: str, sources: list[str]
) -> dict[str, object]:
    """Return the path of our library, and the names of the programs in ``out``.

    Args:
        abi: the ABI.
        out: folder for the programs; if the image has a folder (``kept``), that is copied here.
        own: prefix of the node's own library if it has this ABI: then ours stands before it.
        prefixes: prefixes that may have a library with this ABI.
        kept: folder in the image with compiled programs; empty: compile.
        sources: the C files.
    """
    soname = sonames(abi)[0]
    behind = Path(own, "lib", soname).resolve() if own else Path()
    made = library(
        abi,
        os.environ,
        str(behind) if behind.name.startswith(soname) and behind.exists() else "",
    )
    if kept and Path(kept).is_dir() and not Path(out).exists():
        Path(out).symlink_to(kept)
    for source in sources:
        _compile(
            abi,
            source,
            Path(out, Path(source).stem),
            [Path(each, "bin/mpicc") for each in prefixes if each],
        )
    there = (
        sorted(path.name for path in Path(out).iterdir()) if Path(out).exists() else []
    )
    return {"library": str(made), "programs": there}


def _compile(abi: str, source: str, out: Path, compilers: list[Path]) -> None:
    """Compile one program; do nothing if this node has no compiler for the ABI."""
    flags = ["-O1", "-Wl,--as-needed", "-o", str(out), source, *_flags(out.name)]
    if abi == "standard":
        command = command_of(flags, os.environ)
    elif there := next((path for path in compilers if path.exists()), None):
        command = [
            str(there),
            *(f"-D{name}={value}" for name, value in IMPI_KEYS.items()),
            *flags,
        ]
    else:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)


def _flags(name: str) -> list[str]:
    """Return further flags: for what is opened or preloaded, opens others, or embeds Python."""
    if name in ("profiler", "hello_opened"):
        return ["-shared", "-fPIC"]
    if name != "hello_python":
        return ["-ldl"]
    # Python stays needed, although a library before it in the command has its functions, too.
    place = sysconfig.get_config_var("LIBDIR")
    return [
        f"-I{sysconfig.get_path('include')}",
        f"-L{place}",
        f"-Wl,-rpath,{place},--no-as-needed",
        f"-lpython{sysconfig.get_python_version()}",
        "-Wl,--as-needed",
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
