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


# Duck-typed: importlib.abc costs 20 ms of every start.
class Finder:
    """A finder and loader of ``mpi4py.MPI``, ``impi``, and ``mpi4py`` if not installed."""

    gives_mpi4py = True
    """Mark for the native vendors, which remove the hook to import the library's module."""
    finalizes_mpi = True
    """Mark for :mod:`impi.api.runtime`, which else registers an exit function of its own."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module (protocol of ``sys.meta_path``)."""
        if fullname in ("mpi4py.MPI", "impi.MPI") and sys.version_info < _OLDEST:
            raise SystemExit(
                f"impi: {sys.executable} is Python {sys.version.split()[0]}, but impi needs "
                f"{'.'.join(map(str, _OLDEST))} or later: name another Python before the program"
            )
        if fullname == "mpi4py.MPI":
            return ModuleSpec(fullname, self, origin="impi.MPI")  # type: ignore[arg-type]
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


def _answer_mpi4py_run() -> None:
    """Print the path of the MPI library for ``python -m mpi4py --mpi-library``, and exit.

    mpi4py.run itself looks for the library behind the file of ``mpi4py.MPI``, which is Python here.
    """
    main = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", "")
    asked = any(word in sys.argv[1:] for word in ("-mpi-library", "--mpi-library"))
    if main not in ("mpi4py.run", "mpi4py.__main__") or not asked:
        return
    import json

    vendor = json.loads(os.environ.get("IMPI_JOIN", '{"vendor": "pure"}'))["vendor"]
    if vendor == "pure":
        raise SystemExit("impi: this client has no MPI library: its vendor is pure")
    from impi.vendors import describe

    print(describe({"vendor": vendor})["file"])
    raise SystemExit(0)


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
            "no C handles that a compiled extension could use"
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
            "span several MPI libraries",
            name=module.__name__,
        ) from None


def _leave() -> None:
    """Finalize MPI after all exit functions of the program, as mpi4py does."""
    runtime = sys.modules.get("impi.api.runtime")
    if runtime is not None:
        runtime.leave()


def _run_hidden() -> None:
    """Run the ``sitecustomize`` that this one hides."""
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
        importlib.import_module("impi.engine.fetched_input").fetch()
    ExtensionFileLoader.exec_module = _exec_or_say_why  # type: ignore[method-assign, assignment]
    atexit.register(_leave)  # the first to come is the last to run
_run_hidden()
