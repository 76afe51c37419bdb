"""The hook: in a proc of a job every import of ``mpi4py.MPI`` gives :mod:`impi.MPI`.

impirun puts this folder first on PYTHONPATH, and Python runs this file at every start. A finder in
``sys.meta_path`` answers the import of ``mpi4py.MPI``. It also answers ``impi``, with the very
package of impirun, and ``mpi4py`` with a stand-in if that is not installed. With ``--handles`` it
gives mpi4py's own extension, over our C library. In a process that is not a proc the hook only runs
the ``sitecustomize`` that it hides.

Every Python of a job runs this, so it imports next to nothing: os.path in place of pathlib (10 ms),
duck typing in place of importlib.abc (20 ms).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import (
    ExtensionFileLoader,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  (pathlib costs 10 ms of every start)
_LAUNCH = os.path.dirname(_HERE)  # noqa: PTH120
_PACKAGE = os.path.dirname(_LAUNCH)  # noqa: PTH120


_OLDEST = (3, 11)
# From impirun --handles: Python's version, mpi4py's extension, our library under each name.
_handles = (
    os.environ.get("IMPI_HANDLES_FROM", "").split(os.pathsep)
    if "IMPI_HANDLES_FROM" in os.environ
    else []
)
# In the order of their ends: SLEPc needs PETSc
_ENDING = ("slepc4py.SLEPc", "petsc4py.PETSc")
# A program may clear its environment, and a proc needs this to join the job.
_given = {**os.environ} if "IMPI_JOIN" in os.environ else {}
_path = [*sys.path]  # without the program's folder, which Python adds later
_why_not = ""  # why _load_library() failed


# Duck-typed: importlib.abc costs 20 ms of every start.
class Finder:
    """Finder and loader of ``mpi4py.MPI``, of ``impi``, and of ``mpi4py`` if not installed."""

    # A mark: native vendors remove this finder while they import the library's module
    gives_mpi4py = True
    # A mark for impi.rank.api.runtime, which else registers an exit function
    finalizes_mpi = True

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        # Raised by these names alone: a helper of the program in an older
        # Python, without MPI, must run.
        if fullname in ("mpi4py.MPI", "impi.MPI") and sys.version_info < _OLDEST:
            raise SystemExit(
                f"impi: {sys.executable} is Python {sys.version.split()[0]}, but impi needs "
                f"{'.'.join(map(str, _OLDEST))} or later: name another Python before the program"
            )

        if fullname in ("mpi4py.MPI", "impi.MPI"):
            _give_back()

        if fullname == "mpi4py.MPI" and _handles:
            return _extension_spec(fullname)

        if fullname == "mpi4py.MPI":
            return ModuleSpec(fullname, self, origin="impi.MPI")  # type: ignore[arg-type]

        if fullname == "impi.MPI":
            return _module(fullname, _Apart(fullname, os.path.join(_PACKAGE, "MPI.py")))  # noqa: PTH118

        # The package of impirun, even if the program's environment has another version of it.
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
        """Return the only :mod:`impi.MPI`, under a second name."""

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
        """Give the module its own spec back; it was executed as impi.MPI."""

        spec = module.__spec__
        if spec is not None and spec.loader_state is not None:
            module.__spec__ = spec.loader_state

        # impi.MPI imports rare names when they are first used, and that comes before the message.
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
    """Loader of mpi4py's own extension, over our library, which is loaded already."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module. It would finalize MPI when Python is gone, so :func:`_leave` does."""
        _answer_mpi4py_run()
        with _Shadows():
            super().exec_module(module)

        vars(module)["_set_abort_status"] = _set_abort_status


class _Apart(SourceFileLoader):
    """Loader of :mod:`impi.MPI` that ignores modules beside the program."""

    def exec_module(self, module: ModuleType) -> None:
        with _Shadows():
            super().exec_module(module)


class _Shadows:
    """Hides, inside a ``with``, modules of the program that have names of the standard library.

    A ``bisect.py`` beside the program stays the program's ``bisect`` before and after. Inside, impi
    imports Python's own one, and no other module gets to see that.
    """

    def __init__(self) -> None:
        # Entries that the program has added
        self._folders = [folder for folder in sys.path if folder not in _path]
        self._names = _standard_names(self._folders)
        self._theirs: dict[str, ModuleType] = {}
        self._before: set[str] = set()

    def __enter__(self) -> None:
        if not self._names:
            return

        folders = map(os.path.abspath, self._folders)
        within = tuple(os.path.join(folder, "") for folder in folders)  # noqa: PTH118
        for name in self._found():
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(within):
                self._theirs[name] = sys.modules.pop(name)

        self._before = {*sys.modules}
        # Inside, the program's folders are the last ones, so Python's own modules are found first.
        sys.path[:] = [*_path, *self._folders]

    def __exit__(self, *_: object) -> None:
        if not self._names:
            return

        sys.path[:] = [*self._folders, *_path]
        # impi holds its own references to these by now. Under their names
        # the program finds its own again.
        for name in self._found():
            if name not in self._before:
                del sys.modules[name]

        sys.modules.update(self._theirs)

    def _found(self) -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in self._names]


def _standard_names(folders: Sequence[str]) -> set[str]:
    """Return the names of modules in these folders that the standard library has, too."""
    found: set[str] = set()
    for folder in folders:
        try:
            found.update(name.partition(".")[0] for name in os.listdir(folder or "."))  # noqa: PTH208
        except OSError:  # an archive, or no folder at all
            pass

    return found & sys.stdlib_module_names


def _set_abort_status(status: int) -> None:
    """Abort the job with ``status`` at the end of the program; ``python -m mpi4py`` calls this."""
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
    """Load our library before any extension module, so that the loader gives it to all of them.

    Returns:
        Why that is impossible, in words; empty: it is loaded. Only an import of mpi4py.MPI raises
        it: a Python that does not use MPI must run on.
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
            # Fortran's constants are known by their addresses, so every library must find these.
            shared = os.RTLD_GLOBAL if "fh.so" in library else os.RTLD_LOCAL
            _ctypes.dlopen(library, os.RTLD_NOW | shared)
    except ImportError:
        return f"impi: --handles needs cffi, which {sys.executable} does not have: {sys.executable} -m pip install cffi"
    except OSError as error:
        return f"impi: --handles cannot load its library in {sys.executable}: {error}"

    return ""


def _answer_mpi4py_run() -> None:
    """Print the path of the MPI library for ``python -m mpi4py --mpi-library``, and exit.

    mpi4py.run itself would look for the library behind the file of ``mpi4py.MPI``, but that file is
    Python's here.
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
    """Raise AttributeError for a missing name, with the reason if a compiled extension asks."""
    if name in ("__pyx_capi__", "_addressof", "_sizeof", "_handleof"):
        raise AttributeError(
            f"mpi4py.MPI has no {name} in an IMPI job: its communicators span several MPI libraries, so there are "
            "no C handles that a compiled extension could use; impirun --handles ABI gives programs mpi4py's own"
        )

    raise AttributeError(f"module 'mpi4py.MPI' has no attribute {name!r}")


_exec_extension = ExtensionFileLoader.exec_module


def _exec_or_say_why(loader: ExtensionFileLoader, module: ModuleType) -> None:
    """Execute an extension module; name the cause if it misses mpi4py's C structures.

    Cython compares the sizes of classes, and its error shows only the sizes. impi's classes must
    not be as large as mpi4py's: extensions would then read handles where there are none.
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


def _give_back() -> None:
    """Restore what a program has cleared: without IMPI_JOIN it would be a job of its own."""
    given = {**_given}
    _given.clear()
    if given and "IMPI_JOIN" not in os.environ:
        from impi.cabi.tables.kept import is_kept

        for name in filter(is_kept, given):
            os.environ.setdefault(name, given[name])


def _leave() -> None:
    """Finalize MPI after all exit functions of the program, as mpi4py does.

    Frozen objects are invisible to the last collection, which would flush files that the program
    has left open. So modules are kept alive here: Python takes living ones apart one by one, and
    that flushes the files.
    """
    # Kept by a function that importlib holds, because this module is taken apart before __main__.
    vars(_exec_or_say_why)["modules"] = [*sys.modules.values()]

    runtime = sys.modules.get("impi.rank.api.runtime")
    if runtime is not None:
        runtime.leave(_end_modules)


def _end_modules() -> None:
    """Let extension modules finalize now: at exit they would call MPI when Python is gone."""
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


def _usher_children() -> None:
    """Let what the program starts before it uses MPI be ranks in its place, as behind a script.

    The library is in the variables of this process, not in the process: it costs nothing here.
    :func:`impi.rank.engine.job.join.claim` takes it out, as what a rank starts is not a proc.
    """
    usher = os.environ.get("IMPI_USHER", "")
    # The loader complains about a library that another node does not have.
    if usher and "IMPI_JOIN" in os.environ and os.access(usher, os.R_OK):
        tools = os.environ.get("LD_PRELOAD", "")
        if usher not in tools:
            os.environ["LD_PRELOAD"] = f"{tools} {usher}".strip()


_child = os.environ.get("IMPI_PARENT") == str(os.getppid())
if _child:
    # A Python that a rank started (multiprocessing) is not a proc. Its MPI is impi's, as a job of
    # its own, and not the rank's library.
    os.environ["IMPI_PARENT"] = str(os.getpid())
if _child or "IMPI_JOIN" in os.environ:
    # In front of Python's own finder, which would find mpi4py's extension.
    sys.meta_path.insert(0, Finder())
    # Rank 0 of client 0 alone has this variable. Its input must be there before the program reads.
    if "IMPI_INPUT" in os.environ:
        importlib.import_module("impi.rank.engine.job.fetched_input").fetch()
    if _handles:
        _why_not = _load_library()
    _usher_children()
    ExtensionFileLoader.exec_module = _exec_or_say_why  # type: ignore[method-assign, assignment]
    atexit.register(_leave)  # registered first, so that it runs last
_run_hidden()
