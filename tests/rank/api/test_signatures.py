"""Names, parameters and defaults are mpi4py's: ``MPI.pyi`` of the installed one is the measure."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from impi.rank.api.comms.intracomm import COMM_SELF, Intracomm


def _module() -> ModuleType:
    """``impi.MPI`` without a job: importing it would make one of this process."""
    world: Any = ModuleType("impi.rank.api.comms.world")
    # The object that defaults of methods name: an earlier test may have given it a communicator.
    world.COMM_SELF, world.COMM_WORLD = COMM_SELF, Intracomm()
    sys.modules["impi.rank.api.comms.world"] = world
    try:
        return importlib.import_module("impi.MPI")
    finally:
        del sys.modules["impi.rank.api.comms.world"]
        sys.modules.pop("impi.MPI", None)


MPI = _module()
_found = importlib.util.find_spec("mpi4py")
STUB = (
    Path(_found.origin).parent / "MPI.pyi"
    if _found is not None and _found.origin
    else Path("MPI.pyi")
)
pytestmark = pytest.mark.skipif(
    not STUB.exists(), reason="mpi4py is not installed: run 'make test'"
)

NOT_OFFERED = {
    "__pyx_capi__": "there are no handles of C",
    "_sizeof": "there are no handles of C",
    "_addressof": "there are no handles of C",
    "_handleof": "there are no handles of C",
    "_typedict_c": "_typedict has all of it",
    "_typedict_f": "_typedict has all of it",
    "_set_abort_status": "for mpi4py.run alone, whose work our own exit does",
}
OVERLOADED = {
    "buffer.__new__",
    "buffer.__getitem__",
    "buffer.__setitem__",
    "Pickle.__init__",
}


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function of the stub, by its name; a method after the name of its class."""
    if not STUB.exists():
        return
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def names() -> Iterator[str]:
    """Every constant of the stub, and every attribute of a class."""
    if not STUB.exists():
        return
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from (
                f"{node.name}.{inner.target.id}"
                for inner in node.body
                if isinstance(inner, ast.AnnAssign)
                and isinstance(inner.target, ast.Name)
            )


def ours(name: str) -> Any:
    first, _, rest = name.partition(".")
    found = getattr(MPI, first)
    return getattr(found, rest) if rest else found


def parameters(node: ast.FunctionDef, *, method: bool) -> list[tuple[str, Any]]:
    """Names and defaults; a default that is not a literal is looked up."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    defaults: list[Any] = [inspect.Parameter.empty] * (
        len(arguments) - len(node.args.defaults)
    )
    for default in node.args.defaults:
        try:
            defaults.append(ast.literal_eval(default))
        except ValueError:
            assert isinstance(default, ast.Name)
            defaults.append(getattr(MPI, default.id))
    static = any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list
    )
    return [(a.arg, d) for a, d in zip(arguments, defaults, strict=True)][
        1 if method and not static else 0 :
    ]


def refuses(function: Any) -> bool:
    return str(inspect.getdoc(function)).startswith("Not supported: ")


@pytest.mark.parametrize("name", sorted(set(names()) - set(NOT_OFFERED)))
def test_name(name: str) -> None:
    cls, _, attribute = name.partition(".")
    found = getattr(MPI, cls)
    if attribute and not hasattr(found, attribute):  # set by its constructor
        assert attribute in dir(found()), name


@pytest.mark.parametrize(
    ("name", "node"),
    [
        pytest.param(n, f, id=n)
        for n, f in functions()
        if n not in OVERLOADED and n not in NOT_OFFERED
    ],
)
def test_signature(name: str, node: ast.FunctionDef) -> None:
    if name.endswith("__buffer__"):
        return
    function = ours(name)
    if refuses(function):
        with pytest.raises(NotImplementedError, match=r"MPI_\w+ is not supported: "):
            function()
        return
    if name.partition(".")[2].startswith("__"):
        return  # Python's own protocols
    if isinstance(function, property):
        return
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    taken = inspect.signature(function).parameters.values()
    found = [(p.name, p.default) for p in taken if p.kind not in several]
    method = "." in name
    if method and found and found[0][0] in ("self", "cls"):
        found = found[1:]
    expected = parameters(node, method=method)
    assert found == expected
