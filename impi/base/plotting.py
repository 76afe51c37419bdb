"""Common parts of plots: matplotlib, which is optional, and reproducible files.

A file depends on the results alone: it has no date and no random names. It is checked before the
run whose results it will get, which may last for hours.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from impi.base.errors import UsageError, refuse

_KINDS: Final = (".svg", ".png")


def check_file(path: Path) -> None:
    """Check before a run that a file can be written; UsageError: it cannot."""
    folder = path.absolute().parent
    # A new file needs a folder that can be written, an old one needs that itself.
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
    """Check before a run that a plot can be drawn into a file; UsageError: it cannot."""
    if path.suffix not in _KINDS:
        raise UsageError(
            f"a plot is a file that ends in .svg or .png, not {path.name!r}"
        )

    check_file(path)
    pyplot()


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, set up to draw into files; UsageError: it is missing."""

    try:
        import matplotlib as mpl
    except ImportError:
        raise UsageError(
            "plots need matplotlib, which is not installed; pip install 'impilab[plots]'"
        ) from None

    # Before pyplot is imported, which would look for a display.
    mpl.use("Agg")
    # Names in the file are hashes with a random salt otherwise, and the text would be outlines.
    mpl.rcParams["svg.hashsalt"] = "impi"
    mpl.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    return plt


def save_plot(figure: Any, path: Path) -> None:
    """Write a figure without date and random names; UsageError: the file cannot be written."""
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        pyplot().close(figure)
