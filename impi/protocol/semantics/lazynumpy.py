"""numpy, loaded on first use: its import takes as long as the rest of a proc's start.

``from impi.protocol.semantics.lazynumpy import np`` stands for ``import numpy as np``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["loaded", "np"]


class _Numpy:
    def __getattr__(self, name: str) -> Any:
        # At the first use of any name. Programs that send octets, or few numbers, never come here.
        import numpy

        value = getattr(numpy, name)
        # The next time it is found like any other attribute
        self.__dict__[name] = value

        return value


if TYPE_CHECKING:
    import numpy as np
else:
    np = _Numpy()


def loaded() -> bool:
    """Whether numpy is loaded already, so that its use costs nothing more."""
    return "numpy" in sys.modules
