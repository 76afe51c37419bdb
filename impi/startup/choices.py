"""What the users of our own clients choose beyond the specification, and how all of these come to know that they agree.

A choice is a label of ours (IMPI 2.3.5: new ones may be added, clients ignore what they do not know), submitted only
where a user has chosen something. So a client of ours that hears of a choice that it has not made knows that they
differ, and says so; one of another implementation is silent.
"""

from __future__ import annotations

import struct
from typing import Final

from impi.errors import StartupError
from impi.job import ALTERNATIVES
from impi.startup.facts import ClientFacts
from impi.wire import OwnLabel

__all__ = ["check_choice", "encode_choices"]

_VALUE: Final = struct.Struct(">i")


def encode_choices(facts: ClientFacts) -> list[tuple[OwnLabel, bytes]]:
    """The labels of what was chosen, ascending, each with its data."""
    values = {
        OwnLabel.C_VERIFY: facts.verify,
        OwnLabel.C_COLLECTIVES: sum(1 << bit for bit, name in enumerate(ALTERNATIVES) if name in facts.collectives),
    }
    return [(label, _VALUE.pack(value)) for label, value in values.items() if value]


def check_choice(label: OwnLabel, chosen: dict[int, bytes], own: bytes | None, nclients: int) -> None:
    """Compare what the clients in ``chosen`` have submitted with our ``own``, None if we have submitted nothing.

    Raises:
        StartupError: another client has chosen something else, or only some of those that must choose have.
    """
    # Verification needs every client; a reading of the specification may be that of an implementation that is silent.
    all_must = own is None or label is OwnLabel.C_VERIFY
    if all_must and len(chosen) < nclients:
        clients = ", ".join(map(str, chosen))
        who = f"client {clients} has" if len(chosen) == 1 else f"clients {clients} have"
        raise StartupError(f"only {who} {_NAMES[label]}: start all clients with the same, or none")
    (first, value), *others = chosen.items()
    for client, other in others:
        if other != value:
            raise StartupError(
                f"client {first} has {_show(label, value)} and client {client} has {_show(label, other)}: "
                "start all clients with the same, or none"
            )


_NAMES: Final = {OwnLabel.C_VERIFY: "IMPI_VERIFY", OwnLabel.C_COLLECTIVES: "--collectives"}


def _show(label: OwnLabel, data: bytes) -> str:
    [value] = _VALUE.unpack(data)
    if label is OwnLabel.C_VERIFY:
        return f"IMPI_VERIFY={value}"
    return f"--collectives {','.join(name for bit, name in enumerate(ALTERNATIVES) if value >> bit & 1)}"
