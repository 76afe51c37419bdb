"""Make a fork look like a fresh Python to the program that it runs.

How it works: :func:`run` takes the steps of Python's start, in Python's order: variables, standard
streams, the search path, ``sitecustomize``, which is impi's hook, and ``__main__``. Python's own C
function runs the file. At the end of the program Python itself ends, with its exit functions, and
never returns into the code that has forked. Three things differ from a fresh Python: more modules
are loaded, and stay until the end; frames lie below that of the program; forks of one process have
the same seed of hashes.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import gc
import importlib
import io
import os
import signal
import sys
import threading
from _io import _IOBase
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType, ModuleType
from typing import Final, NoReturn, TextIO

from impi.base.remote import shown_process

ANEW: Final = ("sitecustomize", "__main__")
"""Modules that a fork loads anew."""
# Python puts this name on sys.path even if there is no such file, before its library's folders.
_LIBRARY: Final = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
_ENDING: Final = (
    "sys",
    "builtins",
    "__main__",
    "threading",
    "warnings",
    "io",
    "_io",
    "os",
    "codecs",
    "encodings",
)
"""Modules that Python itself uses while it ends."""
_STANDARD: Final = ("stdin", "stdout", "stderr")
_LIBC: Final = ctypes.CDLL(None)
_fopen: Final = _LIBC.fopen
_fopen.restype = ctypes.c_void_p
_run_file: Final = ctypes.pythonapi.PyRun_SimpleFileExFlags
_run_file.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p)
_exit: Final = ctypes.pythonapi.Py_Exit
# A profiler of the program would see calls of Python functions here, but not those of partials.
_tracer: Final = partial(sys.gettrace)
_profiler: Final = partial(sys.getprofile)
_trace: Final = partial(sys.settrace)
_profile: Final = partial(sys.setprofile)
_kept: list[ModuleType] = []


def folder_of(file: str) -> str:
    """Return the folder that Python puts first into ``sys.path`` for a program."""
    return os.path.dirname(os.path.realpath(file))  # noqa: PTH120


def search_path(env: Mapping[str, str]) -> list[str]:
    """Return the folders in ``PYTHONPATH`` as absolute paths."""
    return [
        os.path.abspath(item)  # noqa: PTH100
        for item in env.get("PYTHONPATH", "").split(os.pathsep)
        if item
    ]


def run(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> NoReturn:
    """Run a command, which is this Python with a file, and end this process with it.

    Args:
        argv: the command: Python, the file, its arguments.
        env: all variables of the command.
        cwd: its working folder.
    """

    # Item by item, so that the C library's variables change, too: C code reads those.
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    shown_process.show(argv, env)
    _open_streams()
    sys.orig_argv[:] = argv
    sys.argv = list(argv[1:])
    # The frames below count, too: without this the program would reach the limit earlier.
    sys.setrecursionlimit(sys.getrecursionlimit() + sum(1 for _ in _frames()))
    # threading keeps the number of the parent's thread in a fork (seen in Python 3.11).
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
    # To know at the end which modules the program has touched: see _keep().
    before = {
        name: dict(vars(module))
        for name, module in sys.modules.items()
        if name not in ANEW
    }
    # The first one runs last, and no tracer of the program sees it
    atexit.register(_keep, before)
    atexit.register(sys.settrace, None)
    atexit.register(sys.setprofile, None)
    _find_anew(env)
    _main_module()
    sys.path.insert(0, folder_of(argv[1]))
    _execute(argv[1])


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _open_streams() -> None:
    """Open the standard streams as Python does, with the encodings of this process."""
    # Python -u makes a fresh Python: see warm.py
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for descriptor, name in enumerate(_STANDARD):
        ours: TextIO = getattr(sys, f"__{name}__")
        mode = "w" if descriptor else "r"
        octets = open(  # noqa: SIM115
            descriptor,
            f"{mode}b",
            0 if unbuffered and descriptor else -1,
            closefd=False,
        )
        setattr(getattr(octets, "raw", octets), "name", f"<{name}>")  # noqa: B010  (typed as read-only)
        by_line = not unbuffered and (name == "stderr" or os.isatty(descriptor))
        stream = io.TextIOWrapper(
            octets, ours.encoding, ours.errors, "\n", by_line, unbuffered
        )
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def library_path() -> list[str]:
    """Return the part of ``sys.path`` from Python's library on; empty: the library is not in it."""
    names = [item.rpartition("/")[2] for item in sys.path]
    return sys.path[names.index(_LIBRARY) :] if _LIBRARY in names else []


def _find_anew(env: Mapping[str, str]) -> None:
    """Set ``sys.path`` as it is before Python knows a program, and run the hook."""

    # As the module site does: a folder that is named twice counts once.
    sys.path[:] = dict.fromkeys([*search_path(env), *library_path()])

    # Finders keep lists of folders, and this process may have read them before
    # the program's files were written.
    importlib.invalidate_caches()
    for name in ANEW:
        sys.modules.pop(name, None)

    with suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")


def _main_module() -> None:
    main = ModuleType("__main__")
    # From 3.14 on annotations are made on demand (PEP 649), and a fresh
    # `__main__` has no dictionary for them.
    if sys.version_info < (3, 14):
        main.__annotations__ = {}

    vars(main).update(__loader__=None, __builtins__=builtins)  # in Python's order
    sys.modules["__main__"] = main


def _execute(file: str) -> NoReturn:
    """Run the program, and end as Python does after it.

    Python's own C function runs it, and handles exceptions, ``SystemExit``, ``sys.excepthook`` and
    missing streams. So none of our frames is in a traceback.
    """

    named = os.fsencode(os.path.join(os.getcwd(), file))  # noqa: PTH109, PTH118  (absolute, but as it is written)

    source = _fopen(named, b"rb")
    if not source:
        sys.exit(f"{sys.executable}: can't open file {os.fsdecode(named)!r}")

    # 1: the function closes the file.
    program = partial(_run_file, source, named, 1, None)

    # One line with calls of C only: a debugger that the program has started would stop in the next
    # line of ours, and a tracer must be off for what follows.
    # fmt: off
    failed, tracer, profiler, *_ = program(), _tracer(), _profiler(), _trace(None), _profile(None)
    # fmt: on
    # The function has printed the exception and dropped it; this is what it leaves.
    if failed and getattr(sys, "last_type", None) is KeyboardInterrupt:
        _end_by_interrupt()

    for frame in _frames():
        frame.f_trace = None  # bdb sets it in all frames below the one that starts it

    _ = _trace(tracer), _profile(profiler), _exit(1 if failed else 0)
    raise AssertionError("Py_Exit has returned")


def _end_by_interrupt() -> None:
    """Let this process end by SIGINT after Python has ended, as python does for Ctrl-C.

    The starter then sees the signal, and not an exit code. ``__cxa_atexit`` runs the function in
    exit(), when Python's exit functions and destructors are through.
    """
    # A handler in Python becomes the default by itself
    if not callable(signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    _LIBC.__cxa_atexit(getattr(_LIBC, "raise"), ctypes.c_void_p(signal.SIGINT), None)


class _Last:
    """An object that Python destroys after all modules, and that then flushes open files.

    A fresh Python flushes them as it takes modules apart; modules in :data:`_kept` are not.
    """

    def __del__(self) -> None:
        for found in gc.get_objects():
            if issubclass(type(found), _IOBase):
                with suppress(Exception):
                    found.flush()


def _keep(before: dict[str, dict[str, object]]) -> None:
    """Keep Python's end from taking apart modules that the program has not touched.

    That would be a tenth of a short job's time. Modules that the program has loaded or changed are
    taken apart, so that the objects in them are destroyed as usual.

    Args:
        before: the names in each module before the program began.
    """
    for name, names in before.items():
        if name in _ENDING or name not in sys.modules:
            continue

        module = sys.modules.pop(name)
        if _same(getattr(module, "__dict__", {}), names):
            # Python takes apart each module in sys.modules that still lives
            _kept.append(module)
        else:
            sys.modules[name] = module  # now after __main__, as in a fresh Python

    before.clear()
    sys._impi_last = _Last()  # type: ignore[attr-defined]


def _same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return len(one) == len(other) and all(
        other.get(name, other) is value for name, value in one.items()
    )
