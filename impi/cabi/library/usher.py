"""Compile the usher (``usher.c``): a small library for all processes of a program.

A script or an interpreter uses MPI in a process that impirun does not start, or opens a libmpi
itself. The usher brings our libmpi to such a process, or tells impirun about it. Compiling it takes
0.3 s, once for each Python, checkout and cache: these three paths are compiled in, because the
process that needs them may have been given an empty environment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from impi.cabi.library import cache
from impi.cabi.tables import kept
from impi.cabi.tables.abi_tables import FOLDER
from impi.protocol.proofs import sha256

_NAME: Final = "libimpi_usher.so"
_RUN: Final = "import sys; sys.path.append({root!r}); from impi.launch.start.ushered import {function}; {function}()"


def usher(environ: Mapping[str, str]) -> Path:
    """Return the path of the usher; compile it if the cache has none.

    Args:
        environ: variables that say where the cache is.

    Raises:
        LaunchError: there is no C compiler, or it fails.
    """

    root = str(FOLDER.parents[1])
    text = f"{kept.c_text()}{(FOLDER / 'usher.c').read_text('utf-8')}"
    told = f"{sys.executable} {root} {cache.folder(environ)}"
    digest = sha256(told.encode() + text.encode()).hexdigest()[:12]
    place = cache.place(environ, f"usher-{digest}", [_NAME])
    found = Path(place, _NAME)
    defined = {
        "IMPI_PYTHON": sys.executable,
        "IMPI_USHER": str(found),
        "IMPI_HOOK": str(Path(root, "impi", "launch", "hook")),
        "IMPI_BEGIN": _RUN.format(root=root, function="begin"),
        "IMPI_TELL": _RUN.format(root=root, function="tell"),
    }

    def fill(made: str) -> None:
        # Slow to import, and needed once for a machine
        from impi.cabi.library import compilation

        Path(made).mkdir()
        source = Path(made).with_name("usher.c")
        lines = [
            # A string of JSON is one of C, too: quotes and backslashes are escaped alike.
            f"#define {name} {json.dumps(value, ensure_ascii=False)}"
            for name, value in defined.items()
        ]
        source.write_text("\n".join([*lines, text]), "utf-8")
        compilation.link_shared(
            Path(made, _NAME), _NAME, ["-O2", "-fPIC", "-w", str(source), "-ldl"]
        )

    cache.make(place, fill, [_NAME])

    return found
