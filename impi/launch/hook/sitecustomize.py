"""The hook: in a proc of a job every import of ``mpi4py.MPI`` gives :mod:`impi.MPI`.

impirun puts this folder first on PYTHONPATH, and Python runs this file at every start. Without
``IMPI_JOIN`` it only runs the ``sitecustomize`` that it hides. It also makes ``impi`` importable,
from the very package of impirun, and provides a stand-in for ``mpi4py`` if that is not installed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  (pathlib costs 10 ms of every start)
_LAUNCH = os.path.dirname(_HERE)  # noqa: PTH120
_PACKAGE = os.path.dirname(_LAUNCH)  # noqa: PTH120


_OLDEST = (3, 11)
# Of impirun --handles: Python's version, mpi4py's extension, our library under its names.
_handles = os.environ.get("IMPI_HANDLES_FROM", "").split(os.pathsep) if "IMPI_HANDLES_FROM" in os.environ else []
_ENDING = ("slepc4py.SLEPc", "petsc4py.PETSc")  # of _end_modules(); the later one needs the first no more
_path = [*sys.path]  # without the program's folder, which comes later
_why_not = ""  # why _load_library() failed


# Duck-typed: importlib.abc costs 20 ms of every start.
class Finder:
    """A finder and loader of ``mpi4py.MPI``, ``impi``, and ``mpi4py`` if not installed."""

    gives_mpi4py = True  # mark for the native vendors, which remove the hook to import the library's module
    finalizes_mpi = True  # mark for impi.rank.api.runtime, which else registers an exit function of its own

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in ("mpi4py.MPI", "impi.MPI") and sys.version_info < _OLDEST:
            raise SystemExit(
                f"impi: {sys.executable} is Python {sys.version.split()[0]}, but impi needs "
                f"{'.'.join(map(str, _OLDEST))} or later: name another Python before the program"
            )
        if fullname == "mpi4py.MPI" and _handles:
            return _extension_spec(fullname)
        if fullname == "mpi4py.MPI":
            return ModuleSpec(fullname, self, origin="impi.MPI")  # type: ignore[arg-type]
        if fullname == "impi.MPI":
            return _module(fullname, _Apart(fullname, os.path.join(_PACKAGE, "MPI.py")))  # noqa: PTH118
        if fullname == "impi":
            return _package(fullname, os.path.join(_PACKAGE, "__init__.py"), [_PACKAGE])  # noqa: PTH118
        if fullname == "mpi4py" and PathFinder.find_spec(fullname) is None:
            return _package(fullname, os.path.join(_LAUNCH, "standin.py"), [])  # noqa: PTH118
        if fullname.startswith("mpi4py.") and not path:
            raise ModuleNotFoundError(
                f"{fullname} is a part of mpi4py itself, which {sys.executable} does not have; "
                f"install it there with '{sys.executable} -m pip install mpi4py'",
                name=fullname,
            )
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the one :mod:`impi.MPI`, under a second name."""
        _answer_mpi4py_run()
        # Modules are never garbage: freezing them saves the collector a tenth of a short program.
        collects = gc.isenabled()
        gc.disable()
        try:
            module = importlib.import_module("impi.MPI")
            gc.freeze()
        finally:
            if collects:
                gc.enable()
        spec.loader_state = module.__spec__  # the import system is about to replace it
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's identity; it has been executed."""
        spec = module.__spec__
        if spec is not None and spec.loader_state is not None:
            module.__spec__ = spec.loader_state
        later = vars(module).get("__getattr__")

        def attribute(name: str) -> Any:
            if later is not None:
                try:
                    return later(name)
                except AttributeError:
                    pass
            return _no_handles(name)

        vars(module)["__getattr__"] = attribute


class Extension(ExtensionFileLoader):
    """Loader of mpi4py's own extension over our library, which the process has already."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module; it would finalise when Python is gone, so :func:`_leave` does."""
        _answer_mpi4py_run()
        with _Shadows():
            super().exec_module(module)
        vars(module)["_set_abort_status"] = _set_abort_status


class _Apart(SourceFileLoader):
    """Loader of :mod:`impi.MPI`, whatever modules stand beside the program."""

    def exec_module(self, module: ModuleType) -> None:
        with _Shadows():
            super().exec_module(module)


class _Shadows:
    """Hides the program's modules that have a name of the standard library, in a ``with``.

    A ``bisect.py`` beside the program is the program's ``bisect``, before and after; impi loads
    Python's meanwhile, and nobody else sees it.
    """

    def __init__(self) -> None:
        self._folders = [folder for folder in sys.path if folder not in _path]  # what the program has added
        self._names = _standard_names(self._folders)
        self._theirs: dict[str, ModuleType] = {}
        self._before: set[str] = set()

    def __enter__(self) -> None:
        if not self._names:
            return
        within = tuple(os.path.join(os.path.abspath(folder), "") for folder in self._folders)  # noqa: PTH100, PTH118
        for name in self._found():
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(within):
                self._theirs[name] = sys.modules.pop(name)
        self._before = {*sys.modules}
        sys.path[:] = [*_path, *self._folders]

    def __exit__(self, *_: object) -> None:
        if not self._names:
            return
        sys.path[:] = [*self._folders, *_path]
        for name in self._found():
            if name not in self._before:
                del sys.modules[name]
        sys.modules.update(self._theirs)

    def _found(self) -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in self._names]


def _standard_names(folders: Sequence[str]) -> set[str]:
    """Return the names of modules in folders that the standard library has, too."""
    found: set[str] = set()
    for folder in folders:
        try:
            found.update(name.partition(".")[0] for name in os.listdir(folder or "."))  # noqa: PTH208
        except OSError:  # an archive, or none
            pass
    return found & sys.stdlib_module_names


def _set_abort_status(status: int) -> None:
    """For ``python -m mpi4py``: abort the job with ``status`` at the end of the program."""
    runtime = sys.modules.get("impi.rank.api.runtime")
    if runtime is not None:
        runtime.set_abort_status(status)


def _extension_spec(name: str) -> ModuleSpec:
    if _why_not:
        raise SystemExit(_why_not)
    spec = ModuleSpec(name, Extension(name, _handles[1]), origin=_handles[1])
    spec.has_location = True
    return spec


def _load_library() -> str:
    """Load our library before any extension module: it is then the one of its name.

    Return why it cannot be; a Python that does not use MPI never tells.
    """
    version = ".".join(map(str, sys.version_info[:2]))
    if version != _handles[0]:
        return (
            f"impi: {sys.executable} is Python {version}, but --handles has made a library for Python {_handles[0]}: "
            "start impirun with the Python of the program"
        )
    import _ctypes

    try:
        importlib.import_module("_cffi_backend")
        for library in _handles[2:]:
            # Fortran's constants are known by their addresses: all libraries must have these.
            shared = os.RTLD_GLOBAL if "fh.so" in library else os.RTLD_LOCAL
            _ctypes.dlopen(library, os.RTLD_NOW | shared)
    except ImportError:
        return f"impi: --handles needs cffi, which {sys.executable} does not have: {sys.executable} -m pip install cffi"
    except OSError as error:
        return f"impi: --handles cannot load its library in {sys.executable}: {error}"
    return ""


def _answer_mpi4py_run() -> None:
    """Print the path of the MPI library for ``python -m mpi4py --mpi-library``, and exit.

    mpi4py.run itself looks for the library behind the file of ``mpi4py.MPI``, which is Python here.
    """
    main = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", "")
    asked = any(word in sys.argv[1:] for word in ("-mpi-library", "--mpi-library"))
    if main not in ("mpi4py.run", "mpi4py.__main__") or not asked:
        return
    import json

    join = json.loads(os.environ.get("IMPI_JOIN", "{}"))
    if "library" not in join:
        raise SystemExit("impi: this client has no MPI library: its vendor is pure")
    from impi.rank.vendors import describe

    print(describe(join)["file"])
    raise SystemExit(0)


def _module(name: str, loader: SourceFileLoader) -> ModuleSpec:
    spec = ModuleSpec(name, loader, origin=loader.path)
    spec.has_location = True
    return spec


def _package(name: str, file: str, locations: list[str]) -> ModuleSpec:
    spec = ModuleSpec(name, SourceFileLoader(name, file), origin=file, is_package=True)
    spec.has_location = True
    spec.submodule_search_locations = locations
    return spec


def _no_handles(name: str) -> Any:
    """Raise AttributeError for missing names; compiled extensions get a reason."""
    if name in ("__pyx_capi__", "_addressof", "_sizeof", "_handleof"):
        raise AttributeError(
            f"mpi4py.MPI has no {name} in an IMPI job: its communicators span several MPI libraries, so there are "
            "no C handles that a compiled extension could use; impirun --handles ABI gives programs mpi4py's own"
        )
    raise AttributeError(f"module 'mpi4py.MPI' has no attribute {name!r}")


_exec_extension = ExtensionFileLoader.exec_module


def _exec_or_say_why(loader: ExtensionFileLoader, module: ModuleType) -> None:
    """Execute an extension module; Cython finds mpi4py's C structs missing and says only sizes.

    Larger classes would end in worse: extensions take handles out of the structs unasked.
    """
    try:
        _exec_extension(loader, module)
    except ValueError as error:
        if not str(error).startswith("mpi4py.MPI.") or "size changed" not in str(error):
            raise
        raise ImportError(
            f"{module.__name__} needs C handles of mpi4py.MPI, which do not exist in an IMPI job: its communicators "
            "span several MPI libraries; impirun --handles ABI, with the ABI that it was compiled for, gives it them",
            name=module.__name__,
        ) from None


def _leave() -> None:
    """Finalize MPI after all exit functions of the program, as mpi4py does.

    The collector no longer sees what it was told to keep. Python takes modules that live apart one
    by one, and so writes the files that the program has left open.
    """
    # Held by a function that importlib holds: this module is taken apart before __main__.
    vars(_exec_or_say_why)["modules"] = [*sys.modules.values()]
    runtime = sys.modules.get("impi.rank.api.runtime")
    if runtime is not None:
        runtime.leave(_end_modules)


def _end_modules() -> None:
    """Let extension modules end what they would end when Python is gone, by calls of MPI."""
    for name in _ENDING if _handles else ():
        if name in sys.modules:
            sys.modules[name]._finalize()


def _run_hidden() -> None:
    rest = [item for item in sys.path if os.path.abspath(item or ".") != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        import importlib.util

        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_child = os.environ.get("IMPI_PARENT") == str(os.getppid())
if _child:
    # Another Python of a rank's program (multiprocessing): by itself, not under the rank's library.
    os.environ["IMPI_PARENT"] = str(os.getpid())
if _child or "IMPI_JOIN" in os.environ:
    sys.meta_path.insert(0, Finder())
    if "IMPI_INPUT" in os.environ:
        importlib.import_module("impi.rank.engine.job.fetched_input").fetch()
    if _handles:
        _why_not = _load_library()
    ExtensionFileLoader.exec_module = _exec_or_say_why  # type: ignore[method-assign, assignment]
    atexit.register(_leave)  # the first to come is the last to run
_run_hidden()
