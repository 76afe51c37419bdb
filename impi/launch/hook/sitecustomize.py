"""The hook: in a proc of a job every import of ``mpi4py.MPI`` gives :mod:`impi.MPI`.

impirun puts this folder first on PYTHONPATH, and Python runs this file at every start. Without
``IMPI_JOIN`` it only runs the ``sitecustomize`` that it hides. It also makes ``impi`` importable,
from the very package of impirun, and provides a stand-in for ``mpi4py`` if that is not installed.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  (pathlib costs 10 ms of every start)
_LAUNCH = os.path.dirname(_HERE)  # noqa: PTH120
_PACKAGE = os.path.dirname(_LAUNCH)  # noqa: PTH120


# Duck-typed: importlib.abc costs 20 ms of every start.
class Finder:
    """A finder and loader of ``mpi4py.MPI``, ``impi``, and ``mpi4py`` if not installed."""

    gives_mpi4py = True
    """Mark for the native vendors, which remove the hook to import the library's module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module (protocol of ``sys.meta_path``)."""
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


def _run_hidden() -> None:
    """Run the ``sitecustomize`` that this one hides."""
    rest = [item for item in sys.path if os.path.abspath(item or ".") != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        import importlib.util

        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "IMPI_JOIN" in os.environ:
    sys.meta_path.insert(0, Finder())
_run_hidden()
