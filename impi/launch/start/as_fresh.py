"""A fork that becomes a fresh Python: to a program it looks as if that had just been started.

How it works: :func:`run` does what Python does at its start, in Python's order: variables, standard
streams, the search path, ``sitecustomize``, which is impi's hook, and ``__main__``. Python's own
function runs the file. At the end of the program Python itself ends, with its exit functions, and
never returns into the process that was forked. What differs from a fresh Python: further modules
are loaded, and stay until the end; frames lie below that of the program; forks of one process have
one seed of hashes.
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

from impi.launch.start import shown_process

ANEW: Final = ("sitecustomize", "__main__")
"""Modules that a fork loads itself."""
_LIBRARY: Final = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
_ENDING: Final = ("sys", "builtins", "__main__", "threading", "warnings", "io", "_io", "os", "codecs", "encodings")
"""Modules that Python itself uses while it ends."""
_STANDARD: Final = ("stdin", "stdout", "stderr")
_LIBC: Final = ctypes.CDLL(None)
_fopen: Final = _LIBC.fopen
_fopen.restype = ctypes.c_void_p
_run_file: Final = ctypes.pythonapi.PyRun_SimpleFileExFlags
_run_file.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p)
_exit: Final = ctypes.pythonapi.Py_Exit
# Not the functions themselves, the calls of which a profiler would see.
_tracer: Final = partial(sys.gettrace)
_profiler: Final = partial(sys.getprofile)
_trace: Final = partial(sys.settrace)
_profile: Final = partial(sys.setprofile)
_kept: list[ModuleType] = []


def folder_of(file: str) -> str:
    """Return the folder that Python puts first into ``sys.path`` for a program."""
    return os.path.dirname(os.path.realpath(file))  # noqa: PTH120


def search_path(env: Mapping[str, str]) -> list[str]:
    """Return the folders of ``PYTHONPATH``."""
    return [os.path.abspath(item) for item in env.get("PYTHONPATH", "").split(os.pathsep) if item]  # noqa: PTH100


def run(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> NoReturn:
    """Run this Python with a file and its arguments, to the end of this process.

    Args:
        argv: the command.
        env: all its variables.
        cwd: its folder.
    """
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    shown_process.show(argv, env)
    _open_streams()
    sys.orig_argv[:] = argv
    sys.argv = list(argv[1:])
    sys.setrecursionlimit(sys.getrecursionlimit() + sum(1 for _ in _frames()))
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
    before = {name: dict(vars(module)) for name, module in sys.modules.items() if name not in ANEW}
    atexit.register(_keep, before)  # the first one runs last; a tracer of the program does not see it
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
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))  # its option would be one of impirun
    for descriptor, name in enumerate(_STANDARD):
        ours: TextIO = getattr(sys, f"__{name}__")
        mode = "w" if descriptor else "r"
        octets = open(descriptor, f"{mode}b", 0 if unbuffered and descriptor else -1, closefd=False)  # noqa: SIM115
        setattr(getattr(octets, "raw", octets), "name", f"<{name}>")  # noqa: B010  (typed as read-only)
        by_line = not unbuffered and (name == "stderr" or os.isatty(descriptor))
        stream = io.TextIOWrapper(octets, ours.encoding, ours.errors, "\n", by_line, unbuffered)
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def library_path() -> list[str]:
    """Return ``sys.path`` from Python's own library on; empty: it is not there."""
    names = [item.rpartition("/")[2] for item in sys.path]
    return sys.path[names.index(_LIBRARY) :] if _LIBRARY in names else []


def _find_anew(env: Mapping[str, str]) -> None:
    """Set ``sys.path`` to what it is before a program is known, and run the hook."""
    sys.path[:] = dict.fromkeys([*search_path(env), *library_path()])
    importlib.invalidate_caches()
    for name in ANEW:
        sys.modules.pop(name, None)
    with suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")


def _main_module() -> None:
    main = ModuleType("__main__")
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    vars(main).update(__loader__=None, __builtins__=builtins)  # in Python's order
    sys.modules["__main__"] = main


def _execute(file: str) -> NoReturn:
    """Run the program, and end as Python does after it.

    Python's own function runs it. So exceptions, ``SystemExit``, ``sys.excepthook`` and missing
    streams are its affair, and none of our frames is in a traceback.
    """
    named = os.fsencode(os.path.join(os.getcwd(), file))  # noqa: PTH109, PTH118  (absolute, but as it is written)
    source = _fopen(named, b"rb")
    if not source:
        sys.exit(f"{sys.executable}: can't open file {os.fsdecode(named)!r}")
    program = partial(_run_file, source, named, 1, None)
    # One line, with calls in C alone: a debugger of the program must not stop in it.
    failed, tracer, profiler, *_ = program(), _tracer(), _profiler(), _trace(None), _profile(None)
    if failed and getattr(sys, "last_type", None) is KeyboardInterrupt:
        _end_by_interrupt()
    for frame in _frames():
        frame.f_trace = None  # bdb follows all frames below the one that calls it
    _ = _trace(tracer), _profile(profiler), _exit(1 if failed else 0)
    raise AssertionError("Py_Exit has returned")


def _end_by_interrupt() -> None:
    """Let this process end by SIGINT, once Python has ended: its starter sees why."""
    if not callable(signal.getsignal(signal.SIGINT)):  # another one becomes the default while Python ends
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _LIBC.__cxa_atexit(getattr(_LIBC, "raise"), ctypes.c_void_p(signal.SIGINT), None)


class _Last:
    """What Python destroys after all modules: it writes the files that are still open."""

    def __del__(self) -> None:
        for found in gc.get_objects():
            if issubclass(type(found), _IOBase):
                with suppress(Exception):
                    found.flush()


def _keep(before: dict[str, dict[str, object]]) -> None:
    """Let Python's end leave alone the modules that the program has not touched.

    To take them apart is a tenth of a short job's time. It takes those apart that the program has
    loaded or set a name in, so that what these refer to has its end.

    Args:
        before: the names of each module from before the program.
    """
    for name, names in before.items():
        if name in _ENDING or name not in sys.modules:
            continue
        module = sys.modules.pop(name)
        if _same(getattr(module, "__dict__", {}), names):
            _kept.append(module)  # one that lives is taken apart, whatever else refers to its names
        else:
            sys.modules[name] = module  # in the order of a fresh Python: behind __main__
    before.clear()
    sys._impi_last = _Last()  # type: ignore[attr-defined]


def _same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return len(one) == len(other) and all(other.get(name, other) is value for name, value in one.items())
