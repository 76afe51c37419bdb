"""The addresses that a host without a proof may connect from (IMPI 2.3.5, 2.3.8).

A host that has the job's key proves itself, wherever its connection comes from. A host of IMPI 0.0
says its number and nothing else, and the text does not say that it connects from the address that
it advertises (H_IPV6). A machine may have several addresses, of which its routes choose one; behind
NAT the gateway's takes their place. So a connection is *expected* from

* an address that this host, or another host of its client, advertises;
* the address that the start-up connection of its client came from, which the server tells (CAME);
* this machine, if the host advertises an address of this machine, too.

The last one needs the machine: see :func:`impi.rank.engine.channels.mesh.claims`. From any other
address a host is accepted with a warning, or refused where the user wants that
(``--strict-addresses``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from impi.base.errors import PeerError
from impi.protocol.job import LONG8_VERSION, Job
from impi.protocol.wire import OwnCommand, addresses, encode_command

_UNKNOWN: Final = bytes(addresses.ADDRESS_SIZE)
_LOOPBACK: Final = ("127.", "::1")


def offers_ours(versions: bytes) -> bool:
    """Return whether one client's C_VERSION has a version of ours, so that it knows CAME."""
    # Versions of ours share the major number, so a newer client of ours is known by it, too.
    ours = LONG8_VERSION[0].to_bytes(4, "big")
    return any(versions[at : at + 4] == ours for at in range(0, len(versions), 8))


def encode_came(came: Sequence[str]) -> bytes:
    """Return the command CAME for the numeric addresses of all clients, in client order.

    A client that reached the server by loopback or by an address with a zone, or whose address is
    not known, has 16 zeros: to everybody else its address would mean another machine, or nothing.
    """
    known = [
        address and "%" not in address and not address.startswith(_LOOPBACK)
        for address in came
    ]
    octets = [
        addresses.from_text(one) if said else _UNKNOWN
        for one, said in zip(came, known, strict=True)
    ]

    return encode_command(OwnCommand.CAME, b"".join(octets))


def decode_came(payload: bytes, nclients: int) -> tuple[str, ...]:
    """Return the numeric address of each client in a CAME; "": not known.

    Raises:
        PeerError: it has not one address for each client.
    """

    size = addresses.ADDRESS_SIZE
    if len(payload) != nclients * size:
        raise PeerError(
            "sent a CAME that has not one address for each client",
            peer="the server",
            octets=payload,
        )

    parts = [payload[at : at + size] for at in range(0, len(payload), size)]

    return tuple("" if part == _UNKNOWN else addresses.to_text(part) for part in parts)


def expected_addresses(job: Job, host: int, came: Sequence[str]) -> list[str]:
    """Return the numeric addresses that a host may connect from, its own one first.

    Args:
        job: the job.
        host: its global index.
        came: see :func:`decode_came`; empty: the server has not told it.
    """

    client = job.hosts[host].client
    siblings = [
        addresses.to_text(other.ipv6) for other in job.hosts if other.client == client
    ]
    own = addresses.to_text(job.hosts[host].ipv6)

    return list(
        dict.fromkeys(filter(None, [own, *siblings, *came[client : client + 1]]))
    )
