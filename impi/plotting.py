"""What all plots share: matplotlib, which is not always there, and files that are the same for the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from impi.errors import UsageError

__all__ = ["check_plot", "pyplot", "save_plot"]

_KINDS: Final = (".svg", ".png")


def check_plot(path: Path) -> None:
    """Raise UsageError now if nothing could be drawn into that file."""
    if path.suffix not in _KINDS:
        raise UsageError(f"a plot is a file that ends in .svg or .png, not {path.name!r}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path} cannot be written: there is no folder {path.absolute().parent}")
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
    """Write the figure, without dates and random names, and close it; UsageError: the file cannot be written."""
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        pyplot().close(figure)
