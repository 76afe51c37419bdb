"""Text files of the lab have an encoding of their own: a user's locale may be any."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sources import modules

ROOMS = ("impi/lab/", "impi/cli/", "impi/base/")


def without(tree: ast.AST) -> Iterator[int]:
    """Yield lines that read or write text in the encoding of the locale."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not any(
            word.arg == "encoding" for word in node.keywords
        ):
            if isinstance(node.func, ast.Attribute):
                given = {"read_text": 0, "write_text": 1}.get(node.func.attr)
                if given is not None and len(node.args) <= given:
                    yield node.lineno
            elif (
                isinstance(node.func, ast.Name)
                and node.func.id == "open"
                and not opens_octets(node)
            ):
                yield node.lineno


def opens_octets(node: ast.Call) -> bool:
    """Whether a call of ``open`` is for octets, or for a file of the kernel."""
    mode = node.args[1] if len(node.args) > 1 else None
    name = node.args[0] if node.args else None
    kernel = isinstance(name, ast.Constant) and str(name.value).startswith("/proc/")
    return kernel or (isinstance(mode, ast.Constant) and "b" in str(mode.value))


def test_text_has_an_encoding() -> None:
    found = [
        f"{path}:{line}"
        for path, tree in modules().items()
        if path.startswith(ROOMS)
        for line in without(tree)
    ]
    assert not found, (
        f'write read_text("utf-8"), write_text(text, "utf-8"), open(path, encoding="utf-8"): {found}'
    )


def test_a_text_without_encoding_would_be_seen() -> None:
    bad = 'p.read_text()\np.write_text(t)\nopen("x")\nopen("x", "w")\n'
    good = 'p.read_text("utf-8")\np.write_text(t, "utf-8")\nopen("x", "rb")\nopen("x", encoding="utf-8")\n'
    assert list(without(ast.parse(bad))) == [1, 2, 3, 4]
    assert list(without(ast.parse(good))) == []
