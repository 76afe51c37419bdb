"""Files of plots: what can be written is known before the run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.base.plotting import check_file, check_plot, pyplot, save_plot


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    check_file(tmp_path / "new.json")
    assert not list(tmp_path.iterdir()), "nothing is made"
    with pytest.raises(UsageError, match="there is no folder"):
        check_file(tmp_path / "none" / "new.json")
    with pytest.raises(UsageError, match="name another file"):
        check_file(tmp_path)


def test_plots_have_two_kinds(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    check_plot(tmp_path / "x.svg")
    check_plot(tmp_path / "x.png")
    with pytest.raises(
        UsageError, match=r"a plot is a file that ends in \.svg or \.png, not 'x\.pdf'"
    ):
        check_plot(tmp_path / "x.pdf")


def test_a_plot_depends_on_the_run_alone(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("one.svg", "two.svg"):
        figure, axes = pyplot().subplots()
        axes.plot([1, 2], [3, 4], label="curve")
        axes.legend()
        save_plot(figure, tmp_path / name)
    assert (tmp_path / "one.svg").read_text() == (tmp_path / "two.svg").read_text()
    assert pyplot().get_fignums() == []


def test_a_plot_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(UsageError, match=f"cannot be written: {os.strerror(2)}"):
        save_plot(pyplot().figure(), tmp_path / "none" / "x.svg")
    assert pyplot().get_fignums() == []


def test_without_matplotlib_the_cure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'impilab\[plots\]'"):
        pyplot()
