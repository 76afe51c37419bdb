"""A fork that becomes a fresh Python: to a program it looks as if that had just been started.

How it works: :func:`run` does what Python does at its start, in Python's order: variables, standard
streams, the search path, ``sitecustomize``, which is impi's hook, and ``__main__``. At the end of
the program Python itself ends, with its exit functions, and never returns into the process that was
forked. What differs from a fresh Python: further modules are loaded, frames lie below that of the
program, and forks of one process have one seed of hashes.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from types import FrameType, ModuleType
from typing import Final, NoReturn, TextIO

from impi.launch.start import shown_process

ANEW: Final = ("sitecustomize", "__main__")
"""Modules that a fork loads itself."""
_LIBRARY: Final = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
_ENDING: Final = ("sys", "builtins", "__main__", "threading", "warnings", "io", "_io", "os", "codecs", "encodings")
"""Modules that Python itself uses while it ends."""
_STANDARD: Final = ("stdin", "stdout", "stderr")


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
    _find_anew(env)
    main = _main_module(argv[1])
    sys.path.insert(0, folder_of(argv[1]))
    loaded = list(sys.modules)
    _end(_executed(main), loaded)


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


def _main_module(file: str) -> ModuleType:
    main = ModuleType("__main__")
    file = os.path.join(os.getcwd(), file)  # noqa: PTH109, PTH118  (absolute, but as it is written)
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    own = {"__loader__": SourceFileLoader("__main__", file), "__builtins__": builtins}
    vars(main).update(own, __file__=file, __cached__=None)
    sys.modules["__main__"] = main
    return main


def _executed(main: ModuleType) -> int | None:
    """Run the program; return its exit code, None after Ctrl-C."""
    file = str(main.__file__)
    try:
        with open(file, "rb") as source:  # noqa: PTH123
            text = source.read()
        try:
            exec(compile(text, file, "exec", dont_inherit=True), vars(main))  # noqa: S102  (the user's program)
        finally:
            _flush()  # Python does so, before exit functions: one of them may not return
    except SystemExit as end:
        return _code(end.code)
    except BaseException as error:
        caught = error
    else:
        return 0
    return _report(caught)


def _flush() -> None:
    """Write what the program has printed; a stream that cannot is tried again at the end."""
    for stream in (sys.stderr, sys.stdout):
        with suppress(Exception):
            stream.flush()


def _report(error: BaseException) -> int | None:
    """Let the program's hook print an exception, without the frame that is ours."""
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit as end:
        return _code(end.code)
    except BaseException as failure:
        import traceback  # 2 ms of every start

        print("Error in sys.excepthook:", file=sys.stderr)
        failed = failure.__traceback__.tb_next if failure.__traceback__ is not None else None
        traceback.print_exception(type(failure), failure, failed)
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(type(error), error, trace)
    return None if isinstance(error, KeyboardInterrupt) else 1


def _code(asked: object) -> int:
    """Return the exit code of ``SystemExit``, and print what is none."""
    if asked is None or isinstance(asked, int):
        return (asked or 0) & 0xFF
    print(asked, file=sys.stderr)
    return 1


def _end(code: int | None, loaded: Sequence[str]) -> NoReturn:
    """End Python as after any program.

    Args:
        code: of the program; None: SIGINT, so that the starter sees why.
        loaded: the modules from before the program. They are not taken apart, which is a tenth of a
            short job's time; the others are, so that files of the program are written.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if code is None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _flush()
        os.kill(os.getpid(), signal.SIGINT)
    # Frames of the forked process lie below this one: nothing may return to them, or end them.
    # Modules that live are taken apart one by one, whatever else refers to their names.
    kept = [*sys.modules.values()]
    for name in loaded:
        if name not in _ENDING:
            sys.modules.pop(name, None)
    ctypes.pythonapi.Py_Exit(code or 0)
    raise AssertionError(f"Py_Exit has returned, with {len(kept)} modules")
