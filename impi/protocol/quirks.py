"""Departures of other clients from IMPI 0.0 that their packets do not reveal.

They are not negotiated: the user names them for the job (``--peer-quirks``), at all our clients.
``peer_quirks`` in images/NAME/NAME.toml says which vendor has which. Adjustments to one MPI library
below us are in :mod:`impi.rank.vendors.native`.
"""

from __future__ import annotations

from collections.abc import Sequence

from impi.base.errors import UsageError
from impi.base.records import names_of, record


@record(kw_only=True)
class Quirks:
    """Behaviour to copy from the peers. LAM/MPI 7.1 needs both."""

    little_endian: bool = False
    """User data between clients is in native little-endian form, where 1.2.2 has external32."""
    reduce_on_p2p: bool = False
    """Reduce uses the point-to-point context id, where 4.3 demands the collective one."""

    @classmethod
    def parse(cls, words: Sequence[str]) -> Quirks:
        """Return the quirks that ``words`` name, such as ``reduce-on-p2p``.

        Raises:
            UsageError: there is no such quirk.
        """
        known = {name.replace("_", "-"): name for name in names_of(cls)}
        for word in words:
            if word not in known:
                raise UsageError(
                    f"there is no quirk {word!r}; the quirks are {', '.join(known)}"
                )

        return cls(**{known[word]: True for word in words})
