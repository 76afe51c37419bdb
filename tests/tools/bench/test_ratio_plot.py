"""A run as a picture: what is drawn, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.tools.bench.ratio_plot import draw
from impi.tools.bench.rows import Row, at_most

pytest.importorskip(
    "matplotlib", reason="matplotlib is not here: pip install 'impilab[plots]'"
)


def row(measure: str, **more: object) -> Row:
    given: dict[str, object] = {
        "vendors": "a+b",
        "unit": "us",
        "better": "lower",
        "values": (2.0, 3.0),
        **more,
    }
    return Row(measure=measure, **given)  # type: ignore[arg-type]


def test_each_measure_has_a_panel_and_each_ratio_a_label(tmp_path: Path) -> None:
    against = {"references": (1.0, 1.0), "against": "sockets", "bound": at_most(2)}
    rows = [
        row("latency", **against, size=8),
        row("latency", **against, size=1024),
        row("rate", **against),
    ]
    draw([*rows, row("idle")], tmp_path / "x.svg", "the title")
    text = (tmp_path / "x.svg").read_text()
    for words in (
        "the title",
        "latency (lower is better)",
        "rate (lower is better)",
        "a+b 1 KiB / sockets",
        " 2.5",
    ):
        assert words in text
    assert "idle" not in text


@pytest.mark.parametrize("references", [(), (0.0, 1.0)])
def test_without_a_ratio_there_is_nothing_to_draw(
    references: tuple[float, ...], tmp_path: Path
) -> None:
    with pytest.raises(
        UsageError, match=r"nothing to draw into .*: no row has a reference"
    ):
        draw([row("latency", references=references)], tmp_path / "x.svg", "")
