"""The programs of a node that has only Python: their texts come over the channel."""

from __future__ import annotations

import json
from pathlib import Path

from impi.remote import errands, forkserver, patience, processes, starter, watch


def bootstrap(python: str) -> tuple[list[str], bytes]:
    """Make the argument vector and the first input of a fork server.

    Nothing has to be installed on the node but ``python``, 3.11 or newer, and both ends are always
    of one version.

    Returns:
        The argument vector, and what must be written to its standard input before anything else.
    """
    modules = {"impi": "", "impi.remote": ""}
    for module in (patience, processes, watch, starter, errands, forkserver):
        modules[module.__name__] = Path(str(module.__file__)).read_text("utf-8")
    text = json.dumps(modules).encode()
    # Read to the octet, unbuffered: the fork server's input follows.
    program = (
        "import os, sys, types, json\n"
        "text = b''\n"
        f"while len(text) < {len(text)}:\n"
        f" data = os.read(0, {len(text)} - len(text))\n"
        " if not data: raise SystemExit\n"
        " text += data\n"
        "for name, source in json.loads(text).items():\n"
        " module = sys.modules[name] = types.ModuleType(name)\n"
        " exec(compile(source, name, 'exec'), module.__dict__)\n"
        "module.main()"
    )
    return [python, "-I", "-S", "-c", program], text
