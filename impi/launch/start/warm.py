"""Procs in Python as forks of a process that has loaded impi, so they import next to nothing.

A rank's start is mostly Python that loads modules. The starter on impirun's machine asks
:func:`forkable` about each command. It agrees if program and user cannot tell the fork from a fresh
Python (:mod:`impi.launch.start.as_fresh`), and then loads the modules once, for all forks.
:func:`why_not` refuses every command that is not plainly this Python with a file, and every
environment with something that Python reads only at its start. A refused command is started as any
other, which is slower and never wrong. So a doubt is a reason to refuse.
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
from impi.base.remote import shown_process
from impi.base.variables import HANDLES_FROM
from impi.launch.start import as_fresh
from impi.launch.start.program import HOOK

# Prefixes of variables that are read only at a start: by Python, the loader and the C library, and
# by modules and .pth files (MPI4PY_, COVERAGE_).
_AT_START: Final = (
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "TZ",
    "MALLOC_",
    "GLIBC_",
    "MPI4PY_PICKLE_",
    "COVERAGE_",
)
_HOME: Final = "HOME"  # Python's start looks there for the user's packages
_PATH: Final = "PYTHONPATH"
_BEGIN: Final = 4096  # octets at the begin of a file that are searched for a zero
_MODULES: Final = tuple(all_suffixes())
# The modules that `from mpi4py import MPI` loads, and vendors. Without impi.MPI and
# impi.rank.api.comms.world, whose import joins a job.
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


def forkable(
    argv: Sequence[str], env: Mapping[str, str], cwd: str
) -> Callable[[], object] | None:
    """Return a function that runs a command in a fork of this process; None: start it anew.

    Args:
        argv: the command.
        env: all variables of the command.
        cwd: its working folder.
    """

    if why_not(argv, env, cwd):
        return None

    load()
    # Once more: a module beside the program may have the name of one that is loaded only now.
    if _why_not_names(os.path.join(cwd, argv[1]), env):  # noqa: PTH118
        return None

    return partial(as_fresh.run, tuple(argv), dict(env), cwd)


def load() -> None:
    """Load the modules that procs need, once. No module joins a job."""

    # The last one is loaded only if all others are.
    if _LOADED[-1] in sys.modules:
        return

    # The collector would look at modules, which are never garbage. freeze() also keeps a later
    # collection in a fork from writing to every object, and so copying the shared pages.
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
    """Load the modules in this process if several clients, its forks, would do so themselves.

    Args:
        clients: the commands of the clients.
    """

    def seems_so(words: Sequence[str]) -> bool:
        # A guess from words, since the clients have not parsed them yet. Only time depends on it.
        kinds = {vendor.library.launcher for vendor in named_in(words)}
        own = (
            "pmi" in words
            or kinds <= {"none"}
            or (kinds <= {"none", "hydra"} and "mpiexec" not in words)
        )
        return own and any(word.endswith(".py") for word in words)

    # For one client nothing is saved: it loads the modules itself.
    if sum(map(seems_so, clients)) > 1 and not _why_not_process(os.environ):
        load()


def why_not(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> str:
    """Return why a command needs a fresh Python, in words; empty: a fork looks the same.

    Args:
        argv: the command.
        env: all variables of the command.
        cwd: its working folder.
    """

    if (
        len(argv) < 2
        or argv[0] != sys.executable
        or not argv[1].endswith(".py")
        or argv[1].startswith("-")
    ):
        return "it is not this Python with a file alone"

    if not (os.path.isdir(cwd) and os.access(cwd, os.X_OK)):  # noqa: PTH112
        return "its folder cannot be entered"

    file = os.path.join(cwd, argv[1])  # noqa: PTH118
    if not _is_source(file):
        return "its file is not text that can be read"

    return _why_not_process(env) or _why_not_names(file, env)


def _is_source(file: str) -> bool:
    """Return whether a file is text: one named .py may also be an archive or byte code."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):  # noqa: PTH116
            return False

        with open(file, "rb") as program:  # noqa: PTH123
            return b"\0" not in program.read(_BEGIN)
    except (OSError, ValueError):
        return False


def _why_not_process(env: Mapping[str, str]) -> str:
    """Return a property of this process that a fork keeps and a fresh Python would lack; or ""."""

    # A variable that only this process has counts, too: Python has read it already.
    for name in {*env, *os.environ}:
        if (
            (name.startswith(_AT_START) or name == _HOME)
            and name != _PATH
            and env.get(name) != os.environ.get(name)
        ):
            return f"{name} has another value here"

    if HANDLES_FROM in env:
        return "a library of --handles comes before all other modules"

    # The first word after the interpreter; -m is how impirun itself may have been started.
    told = "".join(sys.orig_argv[1:2])
    streams = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    reasons = (
        (told.startswith("-") and told != "-m", "impirun has options of Python"),
        (
            bool(sys.flags.safe_path or sys.flags.inspect),
            "Python has options that make it safe or interactive",
        ),
        (
            bool(sys.gettrace() or sys.getprofile() or atexit._ncallbacks()),
            "impirun is looked into",
        ),
        (
            "usercustomize" in sys.modules or _is_customized(),
            "this site customizes Python",
        ),
        (not as_fresh.library_path(), "impirun has a search path of its own"),
        (None in streams, "impirun was started without standard streams"),
        (threading.active_count() > 1, "impirun has threads"),
        (
            not shown_process.possible(),
            "the kernel does not let a fork have a command line",
        ),
    )

    return next((reason for holds, reason in reasons if holds), "")


def _is_customized() -> bool:
    """Return whether the site has a ``sitecustomize`` besides the distributor's and ours."""
    found = getattr(sys.modules.get("sitecustomize"), "__file__", None)
    return found is not None and os.path.dirname(found) not in (  # noqa: PTH120
        os.path.dirname(os.__file__),  # noqa: PTH120
        HOOK,
    )


def _why_not_names(file: str, env: Mapping[str, str]) -> str:
    """Return a loaded module that a fresh Python would find in the program's folders; or ""."""
    loaded = {name for name in sys.modules if "." not in name}
    for folder in (as_fresh.folder_of(file), *as_fresh.search_path(env)):
        for name in loaded.intersection(_names(folder)):
            where = getattr(sys.modules[name], "__file__", None) or ""
            if (
                not where.startswith(os.path.join(folder, ""))  # noqa: PTH118
                and name not in as_fresh.ANEW
            ):
                return f"{name} in {folder} is another one than here"

    return ""


def _names(folder: str) -> Iterator[str]:
    """Yield the names of modules and packages that a program can import from a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_MODULES) or (
                "." not in entry.name and entry.is_dir()
            ):
                yield entry.name.partition(".")[0]
