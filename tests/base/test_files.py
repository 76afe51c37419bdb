"""Files of users: each fault is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.base.files import read_toml, reading


def deep(_: object = None) -> object:
    return deep()


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (lambda: dict[str, int]()["form"], "'form' is missing"),
        (lambda: int("x"), "invalid literal for int() with base 10: 'x'"),
        (lambda: [][0], "IndexError"),
        (lambda: int(float("inf")), "OverflowError"),
        (deep, "it is nested too deeply"),
    ],
)
def test_what_is_malformed(work: Callable[[], object], why: str) -> None:
    with (
        pytest.raises(UsageError) as caught,
        reading("F", "is not a table", "make one"),
    ):
        work()
    assert str(caught.value) == f"F is not a table: {why}; make one"


def test_what_cannot_be_read_and_what_is_told_already(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError,
        match=r"/none cannot be read: No such file or directory; write its path",
    ):
        read_toml(tmp_path / "none")
    with pytest.raises(UsageError, match=r"^mine$"), reading("F", "is not a table"):
        raise UsageError("mine")
    (tmp_path / "deep").write_text("a = " + "[" * 100_000)
    with pytest.raises(
        UsageError, match=r"^topology file .* is not TOML: it is nested too deeply$"
    ):
        read_toml(tmp_path / "deep", "topology file")
    (tmp_path / "good").write_text("a = 1")
    assert read_toml(tmp_path / "good") == {"a": 1}
