"""numpy, loaded on first use: its import takes as long as all the rest of a proc's start.

``from impi.protocol.semantics.lazynumpy import np`` stands for ``import numpy as np``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["loaded", "np"]


class _Numpy:
    def __getattr__(self, name: str) -> Any:
        import numpy

        value = getattr(numpy, name)
        self.__dict__[name] = value  # the next time it is found like any other attribute
        return value


if TYPE_CHECKING:
    import numpy as np
else:
    np = _Numpy()


def loaded() -> bool:
    """Whether somebody has loaded it, so that it costs nothing more."""
    return "numpy" in sys.modules
