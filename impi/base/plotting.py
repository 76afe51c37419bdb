"""Common parts of plots: matplotlib, which is optional, and files that depend on the run alone.

A file is checked for writing before the run whose result it is to hold.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from impi.base.errors import UsageError, refuse

_KINDS: Final = (".svg", ".png")


def check_file(path: Path) -> None:
    """Raise UsageError now if nothing could be written there, not once all is measured."""
    folder = path.absolute().parent
    closed = path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK)
    refuse(
        (not folder.is_dir(), f"{path} cannot be written: there is no folder {folder}"),
        (closed, f"{path} cannot be written; name another file"),
    )


def write_file(path: Path, text: str) -> None:
    """Write a text; UsageError: the file cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def check_plot(path: Path) -> None:
    """Raise UsageError now if nothing could be drawn into that file."""
    if path.suffix not in _KINDS:
        raise UsageError(f"a plot is a file that ends in .svg or .png, not {path.name!r}")
    check_file(path)
    pyplot()


def pyplot() -> Any:
    """The module ``matplotlib.pyplot``, drawing into files; UsageError: it is missing."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise UsageError("plots need matplotlib, which is not installed; pip install 'impilab[plots]'") from None
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "impi"
    mpl.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    return plt


def save_plot(figure: Any, path: Path) -> None:
    """Write the figure without dates and random names; UsageError: the file cannot be written."""
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        pyplot().close(figure)
