"""The page of additions in ``impi.MPI`` to mpi4py's ``MPI``: names, members, and what it lacks.

Both sides are looked up: ours by import, mpi4py's in the stub of its package, which no MPI library
has to be loaded for. So a name that appears in either is on the page, or off it, by itself. MPI's
names begin with a capital letter, and so do ours that programs may use.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from impi import MPI
from impi.rank.api.handles import attributes

_INTRODUCTION = """\
# impi.MPI beyond mpi4py's

`from mpi4py import MPI` gives your program impi's module in a job, and so does `from impi import
MPI` everywhere. It has mpi4py's names with mpi4py's meaning, which
[its own manual](https://mpi4py.readthedocs.io) explains. Here is what it has besides.

A program that uses one of these names runs under `impirun` alone. To run elsewhere as well, ask
first: `hasattr(MPI, "IMPI_CLIENT_COLOR")`.

Some additions have no name here. They are options of `impirun`, which change what names do:

* `--collectives reduce=reproducible`: reductions have the same bits whatever the clients are.
* `--resilient`: calls for jobs that [survive a loss](../how-it-works/jobs-that-survive.md).
* `IMPI_VERIFY`: each collective is checked against the calls of the other ranks.

[All options](options.md) are on a page of their own.
"""
_ENDPOINTS = """\
[More ports than processes](../how-it-works/more-ports-than-processes.md) explains LCOs and
endpoints, with examples.
"""
_MORE = {
    "CNAME": "datatype of the name of an LCO, by which names travel in messages.",
    "HOST": "key of an attribute of MPI-1; its value is `PROC_NULL`.",
}
"""Constants whose source has no text that is meant for a reader."""
_Members = Mapping[str, ast.AST]


def _stub() -> tuple[dict[str, ast.AST], dict[str, ast.ClassDef]]:
    """Return all names of mpi4py's module, and those of them that are classes."""
    spec = find_spec("mpi4py")
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).with_name("MPI.pyi").read_text("utf-8"))
    names = dict(_bound(tree.body))
    classes = {n: node for n, node in names.items() if isinstance(node, ast.ClassDef)}
    return names, classes


def _bound(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node
            case ast.Assign(targets=targets):
                yield from ((t.id, node) for t in targets if isinstance(t, ast.Name))
            case ast.If(body=inner):
                yield from _bound(inner)


def _members_there(name: str, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """Return the members of a class of the stub, inherited ones as well."""
    node = classes[name]
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
    inherited = [_members_there(base, classes) for base in bases if base in classes]
    return {member for member, _ in _bound(node.body)}.union(*inherited)


def _members_here(cls: type) -> set[str]:
    return {name for name in dir(cls) if name[:1].isupper()}


def _plain(text: str) -> str:
    """A docstring's markup as that of the page."""
    text = re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def _said(thing: object) -> str:
    """Return the text of a docstring but its lists of arguments and errors, as one paragraph."""
    text = inspect.getdoc(thing) or ""
    parts = re.split(r"\n\n(?=Args:|Raises:|Returns:)", text)[0].split("\n\n")
    return _plain(" ".join(" ".join(parts).split()))


def _signature(name: str, thing: object) -> str:
    if not callable(thing):
        return name

    given = inspect.signature(thing)
    parameters = [
        # An object prints its address, which is another one each time.
        p.replace(default=...) if repr(p.default).startswith("<impi") else p
        for p in given.parameters.values()
        if p.name not in ("self", "cls")
    ]
    text = str(given.replace(parameters=parameters)).replace("Ellipsis", "...")
    return name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _item(name: str, thing: object) -> str:
    said = _said(thing)
    return textwrap.fill(
        f"`{_signature(name, thing)}`" + (f": {said}" if said else "."),
        98,
        initial_indent="* ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _constants() -> Iterator[tuple[str, str]]:
    """Yield our constants, each with the text below it in the source."""
    body = ast.parse(inspect.getsource(attributes)).body
    for node, after in pairwise(body):
        match node, after:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if name.startswith("IMPI_"):
                yield name, text


def page(note: str) -> str:
    """Return docs/reference/api.md."""
    theirs, classes = _stub()
    ours = {name for name in dir(MPI) if name[:1].isupper()}
    new = {name: getattr(MPI, name) for name in sorted(ours - set(theirs))}
    constants = dict(_constants())
    lines = [note, *_INTRODUCTION.splitlines(), "", "## Attributes of communicators"]
    lines += ["Ask for them by `comm.Get_attr(MPI.NAME)` (IMPI 2.5).", ""]
    lines += [f"* `{name}`: {text}" for name, text in constants.items() if name in new]

    functions = {n: t for n, t in new.items() if inspect.isroutine(t)}
    lines += ["", "## Functions", *(_item(n, t) for n, t in functions.items())]

    lines += ["", "## Classes", *_ENDPOINTS.splitlines()]
    for name, thing in new.items():
        if inspect.isclass(thing):
            lines += ["", f"### {name}", *textwrap.wrap(_said(thing), 100), ""]
            lines += _members(thing, _inherited(thing, classes))

    lines += ["", "## More members of mpi4py's classes"]
    for name in sorted(set(classes) & ours):
        cls = getattr(MPI, name)
        more = _members(cls, _members_there(name, classes) | _above(cls, classes))
        lines += ["", f"### {name}", *more] if more else []

    rest = [n for n in new if n not in constants and not callable(new[n])]
    lines += ["", "## Other names", ""] if rest else []
    lines += [f"* `{name}`: {_MORE[name]}" for name in rest]
    lines += ["", "## What it lacks"]
    lines += _lacking(theirs, classes, ours)
    return "\n".join(lines).rstrip() + "\n"


def _members(cls: type, known: set[str]) -> list[str]:
    names = sorted(_members_here(cls) - known)
    return [_item(name, inspect.getattr_static(cls, name)) for name in names]


def _above(cls: type, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """Return the members that a class has from another one of mpi4py's names: told there."""
    above = [b for b in cls.__mro__[1:] if b.__name__ in classes]
    return set().union(*map(_members_here, above))


def _inherited(cls: type, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    known = [
        base
        for base in cls.__mro__[1:]
        if base.__name__ in classes or not base.__module__.startswith("impi.")
    ]
    return set().union(*map(_members_here, known))


def _lacking(
    theirs: _Members, classes: Mapping[str, ast.ClassDef], ours: set[str]
) -> list[str]:
    names = sorted(n for n in theirs if n[:1].isupper() and n not in ours)
    for name in sorted(set(classes) & ours):
        there = {m for m in _members_there(name, classes) if m[:1].isupper()}
        names += [
            f"{name}.{m}" for m in sorted(there - _members_here(getattr(MPI, name)))
        ]
    if not names:
        return ["No name of mpi4py is missing."]

    said = f"These names of mpi4py are missing: {', '.join(f'`{n}`' for n in names)}."
    return textwrap.wrap(said, 100, break_on_hyphens=False)
