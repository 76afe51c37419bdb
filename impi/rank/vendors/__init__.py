"""Transport between the procs of one client: our own (``pure``), or an MPI library's (``native``).

:mod:`impi.rank.vendors.base` is the contract. Each module has ``connect(join) -> Vendor``.
No vendor knows an engine, an IMPI communicator or a datatype.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, cast

from impi.rank.vendors.base import Vendor
from impi.rank.vendors.presence import announce

if TYPE_CHECKING:
    from impi.rank.vendors.invitation import Invitation

__all__ = ["describe", "load"]


def load(join: Invitation) -> Vendor:
    """Connect this proc to the others of its client, by the library named in the invitation.

    Args:
        join: the content of ``IMPI_JOIN`` (docs/how-it-works/start-up.md).

    Raises:
        LaunchError: the library is missing, or another one was loaded.
    """
    module = _module(join)
    if ("library" in join or join.get("resilient")) and "control" in join:
        announce(join)

    return cast(Vendor, module.connect(join))


def describe(join: Invitation) -> dict[str, str]:
    """Return the result of :meth:`Vendor.describe` of that vendor, without connecting.

    Raises:
        LaunchError: see :func:`load`.
    """
    return cast(dict[str, str], _module(join).describe())


def _module(join: Invitation) -> ModuleType:
    return importlib.import_module(
        "impi.rank.vendors." + ("native" if "library" in join else "pure")
    )
