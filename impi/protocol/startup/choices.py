"""Choices of users beyond the specification, and the agreement of all our clients on them.

A choice is a label of ours (IMPI 2.3.5 allows new ones; clients ignore unknown ones), submitted
only by a client whose user chose something. A client of ours that sees a choice which it has not
made reports the difference; a client of another implementation stays silent.

A table of decisions takes effect only if all clients have it: clients without one take that of the
others. It is submitted once C_VERSION has shown that every client knows such tables. The form of
values in memory is not a choice, but travels likewise: if all agree, values are not converted.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from impi.base.errors import StartupError, UsageError
from impi.protocol.decisions import Decisions
from impi.protocol.job import (
    ALTERNATIVES,
    LAZY_VERSION,
    REPRODUCIBLE,
    RESILIENT_VERSION,
    TUNED_VERSION,
)
from impi.protocol.options import OPTIONS
from impi.protocol.startup.facts import ClientFacts
from impi.protocol.wire import OwnLabel

_VALUE: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">I")
_LITTLE: Final = 1


def encode_choices(facts: ClientFacts) -> list[tuple[OwnLabel, bytes]]:
    """Return the labels of the user's choices, ascending, each with its data."""
    values = {
        OwnLabel.C_VERIFY: facts.offer.verify,
        OwnLabel.C_COLLECTIVES: sum(
            1 << bit
            for bit, name in enumerate(ALTERNATIVES)
            if name in facts.offer.collectives
        ),
    }
    # A value of 0 is not a choice. It is not sent, since LAM/MPI ends at a
    # label that it does not know.
    return [(label, _VALUE.pack(value)) for label, value in values.items() if value]


def check_choice(
    label: OwnLabel, chosen: dict[int, bytes], own: bytes | None, nclients: int
) -> None:
    """Compare what the clients in ``chosen`` submitted with ``own``, None if we submitted nothing.

    Raises:
        StartupError: another client chose differently, or a client that must choose did not.
    """

    # Verification needs every client; a silent implementation may share a reading of the text.
    all_must = own is None or label is OwnLabel.C_VERIFY
    if all_must and len(chosen) < nclients:
        clients = ", ".join(map(str, chosen))
        who = f"client {clients} has" if len(chosen) == 1 else f"clients {clients} have"
        raise StartupError(
            f"only {who} {_NAMES[label]}: start all clients with the same, or none"
        )

    (first, value), *others = chosen.items()
    for client, other in others:
        if other != value:
            raise StartupError(
                f"client {first} has {_show(label, value)} and client {client} has {_show(label, other)}: "
                "start all clients with the same, or none"
            )


def check_version(facts: ClientFacts, version: tuple[int, int]) -> None:
    """Raise StartupError where the user wants what cannot be in a job of the agreed version."""
    if facts.resilient and version != RESILIENT_VERSION:
        raise StartupError(
            "--resilient needs all clients of ours, each with --resilient and none with --impi-version 0.0; what all "
            f"of them offer is version {version[0]:#x}.{version[1]}"
        )

    if REPRODUCIBLE in facts.offer.collectives and not knows_tables(version):
        raise StartupError(
            f"--collectives {REPRODUCIBLE} is possible only if all clients are ours, and none has --impi-version 0.0; "
            f"what all of them offer is version {version[0]:#x}.{version[1]}"
        )


def knows_tables(version: tuple[int, int]) -> bool:
    """Whether the labels that follow C_VERSION belong to a job of that version."""
    return version in (TUNED_VERSION, RESILIENT_VERSION, LAZY_VERSION)


def encode_decisions(decisions: Decisions) -> bytes:
    """The data of C_TUNING."""
    text = decisions.to_json().encode()
    return _LENGTH.pack(len(text)) + text


def agree_on_decisions(clients: Sequence[int], data: bytes) -> Decisions:
    """Return the one table in the broadcast ``data`` of C_TUNING, to which ``clients`` contributed.

    Raises:
        StartupError: not one table for each client, or the tables differ.
    """

    # The server joins the tables without a mark between them (2.3.5), so
    # each begins with its length.
    texts: dict[int, bytes] = {}
    for client in clients:
        end = _LENGTH.size + (
            _LENGTH.unpack_from(data)[0] if len(data) >= _LENGTH.size else 0
        )
        if not _LENGTH.size < end <= len(data):
            raise StartupError(
                "C_TUNING is cut short",
                clause="2.3.5",
                peer=f"client {client}",
                octets=data,
            )

        texts[client], data = data[_LENGTH.size : end], data[end:]

    if data:
        raise StartupError(
            f"C_TUNING has more than the tables of {len(texts)} clients",
            clause="2.3.5",
            octets=data,
        )

    (first, text), *others = texts.items()
    for client, other in others:
        if other != text:
            raise StartupError(
                f"clients {first} and {client} have different tables of --tuning (or IMPI_TUNING): "
                "give the same to all clients, or one to one of them"
            )

    try:
        return Decisions.parse(text)
    except UsageError as error:
        raise StartupError(
            f"C_TUNING is not a table: {error.message}", peer=f"client {first}"
        ) from None


def agree_on_native(representations: Sequence[bytes], nclients: int) -> bool:
    """Return whether user data stays as in memory: all clients submitted one little-endian form.

    Where all are big-endian, external32 is nearly the memory form already and stays in use.
    """
    same = len(representations) == nclients and len(set(representations)) == 1
    return same and representations[0][0] == _LITTLE


_NAMES: Final = {option.label: option.title for option in OPTIONS.values()}
NEEDED: Final = {
    OwnLabel.C_VERIFY: "IMPI_VERIFY",
    OwnLabel.C_COLLECTIVES: "--collectives",
    OwnLabel.C_TUNING: "--tuning",
}
"""Choices of the user that must reach all clients: if the server keeps one back, the job ends."""


def _show(label: OwnLabel, data: bytes) -> str:
    [value] = _VALUE.unpack(data)
    if label is OwnLabel.C_VERIFY:
        return f"IMPI_VERIFY={value}"

    return f"--collectives {','.join(name for bit, name in enumerate(ALTERNATIVES) if value >> bit & 1)}"
