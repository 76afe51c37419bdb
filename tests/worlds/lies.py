"""Mutations of a cell's clients (:data:`impi.lab.run.recipe.Mutation`): programs that lie."""

from __future__ import annotations

from impi.lab.run.recipe import Mutation


def patched(
    *replacements: tuple[str, str], clients: tuple[int, ...] = (1,)
) -> Mutation:
    """The program with some of its text replaced, in some clients."""
    code = (
        "import sys, os\n"
        "path = sys.argv.pop(1)\n"
        "sys.path.insert(0, os.path.dirname(path))\n"
        "text = open(path).read()\n"
        f"for old, new in {list(replacements)!r}:\n"
        "    assert old in text, old\n"
        "    text = text.replace(old, new)\n"
        "exec(compile(text, path, 'exec'))\n"
    )

    def change(
        i: int, argv: list[str], env: dict[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        return ([*argv[:-1], "-c", code, argv[-1]] if i in clients else argv), env

    return change


SENDS_NOTHING = patched(
    ("comm.Sendrecv(", "(lambda *nothing: None)("),
    (
        "report.check(",
        "(lambda what, actual, expected: report.check(what, expected, expected))(",
    ),
    clients=(0, 1),
)
"""The evidence of ``p2p.ring``: all ranks agree that everything is fine, and nothing crosses."""
