"""--peer-quirks at both of our clients: a normal job in another form of user data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parent.parent / "jobs" / "programs" / "quirks.py")
STRICT = ["--impi-version", "0.0"]
BOTH = [*STRICT, "--peer-quirks", "little-endian,reduce-on-p2p"]
ONE = [*STRICT, "--peer-quirks", "little-endian"]


@pytest.mark.parametrize(
    "clients", [["pure:1", "mpich:1"], ["openmpi:1", "pure:1"]], ids="+".join
)
@pytest.mark.parametrize(
    ("who", "options"),
    [
        ("none", {0: STRICT, 1: STRICT}),
        ("one", {0: ONE, 1: STRICT}),
        ("both", {0: BOTH, 1: BOTH}),
    ],
    ids=["none", "one", "both"],
)
def test_form_of_user_data(
    who: str,
    options: dict[int, list[str]],
    clients: list[str],
    run_job: Callable[..., object],
) -> None:
    result = run_job([PROGRAM, who], clients, options=options)
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
