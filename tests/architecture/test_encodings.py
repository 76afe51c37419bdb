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


# ---- what other programs print: octets of any kind ----

FOREIGN = (
    *("impi/base/", "impi/cabi/library/", "impi/launch/", "impi/lab/backends/"),
    *("impi/lab/programs/", "impi/lab/run/"),
)
"""Packages that read what other programs print, or what the kernel says of their processes."""
OURS = {
    "impi/base/remote/forkserver.py": "base64 of ours",
    "impi/base/remote/ssh.py": "base64 and keys of ours",
    "impi/base/remote/starter_lines.py": "base64 of ours",
    "impi/cabi/library/vendor_library.py": "a name in this file",
    "impi/lab/backends/lifecycle/ownership.py": "a number in the kernel's words",
    "impi/lab/backends/lifecycle/residue_program.py": "a table of the kernel, of numbers",
    "impi/lab/cases/own_program.py": "in a try",
    "impi/lab/run/execute.py": "a number, by a pattern",
    "impi/launch/pmi/lines.py": "in a try",
}


def strict(tree: ast.AST) -> Iterator[int]:
    """Yield lines that decode octets strictly: others than UTF-8 raise an exception there."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        words = {word.arg for word in node.keywords}
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "decode"
            and len(node.args) < 2
            and "errors" not in words
        ):
            yield node.lineno


def runs_a_program(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words = {word.arg for word in node.keywords}
            if node.func.attr in ("run", "Popen", "check_output") and (
                {"text", "encoding", "universal_newlines"} & words
                and "errors" not in words
            ):
                yield node.lineno


def test_output_of_programs_may_be_any_octets() -> None:
    found = [
        f"{path}:{line}"
        for path, tree in modules().items()
        if path.startswith("impi/")
        for line in runs_a_program(tree)
    ]
    assert not found, f'give errors="replace", or "surrogateescape" for paths: {found}'


def test_what_others_say_is_decoded_whatever_it_is() -> None:
    found = {
        path: lines
        for path, tree in modules().items()
        if path.startswith(FOREIGN)
        and path not in OURS
        and (lines := list(strict(tree)))
    }
    assert not found, (
        f'write decode("utf-8", "replace"), or say in OURS why not: {found}'
    )


def test_a_strict_reader_would_be_seen() -> None:
    bad = "octets.decode()\nsubprocess.run(argv, text=True)\n"
    good = 'octets.decode("utf-8", "replace")\nsubprocess.run(argv, text=True, errors="replace")\n'
    assert list(strict(ast.parse(bad))) == [1]
    assert list(runs_a_program(ast.parse(bad))) == [2]
    assert list(strict(ast.parse(good))) == list(runs_a_program(ast.parse(good))) == []
