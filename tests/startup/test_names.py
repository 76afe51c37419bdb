"""The package's names, which are looked up when they are asked for."""

from __future__ import annotations

import pytest

from impi import startup


def test_every_name_is_there() -> None:
    assert {name for name in startup.__all__ if getattr(startup, name) is None} == set()


def test_no_other_name_is() -> None:
    with pytest.raises(AttributeError, match=r"'impi\.startup' has no attribute 'nothing'"):
        _ = startup.nothing  # type: ignore[attr-defined]
