"""Procs in Python as forks of a process that has loaded impi: they import next to nothing.

:func:`forkable` is asked by the starter of this machine. It takes the commands for which a fork
looks like a fresh Python to program and user (:mod:`impi.launch.start.as_fresh`). What else a
program is, or whatever in the environment a Python heeds only at its start, makes
:func:`why_not` refuse: then the command is started as any other.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.machinery import all_suffixes
from typing import Final

from impi.base.manifests import named_in
from impi.base.variables import HANDLES_FROM
from impi.launch.start import as_fresh, shown_process
from impi.launch.start.program import HOOK

# Prefixes of variables that Python, its loader or its C library heed at their start; MPI4PY_ and
# COVERAGE_ those of modules and .pth files at theirs.
_AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_", "MPI4PY_PICKLE_", "COVERAGE_")
_HOME: Final = "HOME"  # where Python's start looks for the user's packages
_PATH: Final = "PYTHONPATH"
_BEGIN: Final = 4096  # octets of a file that tell whether it is text
_MODULES: Final = tuple(all_suffixes())
# What `from mpi4py import MPI` loads, and the vendors; not impi.MPI and
# impi.rank.api.comms.world: these join.
_LOADED: Final = (
    "impi.rank.api.comms.commctx",
    "impi.rank.api.comms.ports",
    "impi.rank.api.comms.session",
    "impi.rank.api.comms.topocomm",
    "impi.rank.api.environment",
    "impi.rank.api.files.datareps",
    "impi.rank.api.files.file",
    "impi.rank.api.handles.exceptions",
    "impi.rank.api.p2p.bsend",
    "impi.rank.api.p2p.grequest",
    "impi.rank.api.windows.window",
    "impi.rank.vendors.native",
    "impi.rank.vendors.pure",
)


def forkable(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> Callable[[], object] | None:
    """Return what runs a command in a fork of this process; None: it needs a fresh Python.

    Args:
        argv: the command.
        env: all its variables.
        cwd: its folder.
    """
    if why_not(argv, env, cwd):
        return None
    load()
    if _why_not_names(os.path.join(cwd, argv[1]), env):  # noqa: PTH118  (with the names that are loaded now)
        return None
    return partial(as_fresh.run, tuple(argv), dict(env), cwd)


def load() -> None:
    """Load what procs need, once; nothing of it joins a job."""
    if _LOADED[-1] in sys.modules:
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        for name in _LOADED:
            importlib.import_module(name)
        gc.freeze()
    finally:
        if collects:
            gc.enable()


def load_for(clients: Sequence[Sequence[str]]) -> None:
    """Load what procs need if several clients of this process would do so, by their commands."""

    def seems_so(words: Sequence[str]) -> bool:
        kinds = {vendor.library.launcher for vendor in named_in(words)}
        own = "pmi" in words or kinds <= {"none"} or (kinds <= {"none", "hydra"} and "mpiexec" not in words)
        return own and any(word.endswith(".py") for word in words)

    if sum(map(seems_so, clients)) > 1 and not _why_not_process(os.environ):
        load()


def why_not(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> str:
    """Return why a command needs a fresh Python; empty: a fork looks the same."""
    if len(argv) < 2 or argv[0] != sys.executable or not argv[1].endswith(".py") or argv[1].startswith("-"):
        return "it is not this Python with a file alone"
    if not (os.path.isdir(cwd) and os.access(cwd, os.X_OK)):  # noqa: PTH112
        return "its folder cannot be entered"
    file = os.path.join(cwd, argv[1])  # noqa: PTH118
    if not _is_source(file):
        return "its file is no text that can be read"
    return _why_not_process(env) or _why_not_names(file, env)


def _is_source(file: str) -> bool:
    """Whether a file is text: one named so may also be an archive or compiled code."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):  # noqa: PTH116
            return False
        with open(file, "rb") as program:  # noqa: PTH123
            return b"\0" not in program.read(_BEGIN)
    except (OSError, ValueError):
        return False


def _why_not_process(env: Mapping[str, str]) -> str:
    """Return what of this process a fork would keep, and a fresh Python would not have."""
    for name in {*env, *os.environ}:
        if (name.startswith(_AT_START) or name == _HOME) and name != _PATH and env.get(name) != os.environ.get(name):
            return f"{name} has another value here"
    if HANDLES_FROM in env:
        return "a library of --handles comes before all other modules"
    told = "".join(sys.orig_argv[1:2])
    streams = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    reasons = (
        (told.startswith("-") and told != "-m", "impirun has options of Python"),
        (bool(sys.flags.safe_path or sys.flags.inspect), "Python has been told to be safe or interactive"),
        (bool(sys.gettrace() or sys.getprofile() or atexit._ncallbacks()), "impirun is looked into"),
        ("usercustomize" in sys.modules or _is_customized(), "this site customizes Python"),
        (not as_fresh.library_path(), "impirun has a search path of its own"),
        (None in streams, "impirun was started without standard streams"),
        (threading.active_count() > 1, "impirun has threads"),
        (not shown_process.possible(), "the kernel does not let a fork have a command line"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def _is_customized() -> bool:
    """Whether Python's start has run a ``sitecustomize`` of neither Python's distributor nor us."""
    found = getattr(sys.modules.get("sitecustomize"), "__file__", None)
    return found is not None and os.path.dirname(found) not in (os.path.dirname(os.__file__), HOOK)  # noqa: PTH120


def _why_not_names(file: str, env: Mapping[str, str]) -> str:
    """Return which loaded module a fresh Python would find in the program's folders instead."""
    loaded = {name for name in sys.modules if "." not in name}
    for folder in (as_fresh.folder_of(file), *as_fresh.search_path(env)):
        for name in loaded.intersection(_names(folder)):
            where = getattr(sys.modules[name], "__file__", None) or ""
            if not where.startswith(os.path.join(folder, "")) and name not in as_fresh.ANEW:  # noqa: PTH118
                return f"{name} in {folder} is another one than here"
    return ""


def _names(folder: str) -> Iterator[str]:
    """Yield the names of what a program can import from a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_MODULES) or ("." not in entry.name and entry.is_dir()):
                yield entry.name.partition(".")[0]
