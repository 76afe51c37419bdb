"""Faults of networks that the lab causes at a named phase of a job, and their case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from impi.lab.cases.case import Case, Crossing, around, by_rank, messages
from impi.lab.cases.ends.fault_matrix import HITS
from impi.lab.cases.faults import NETWORK_PHASES, Fault
from impi.lab.nodes import PROFILES, Roster


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFault:
    """One kind of fault of a network; its act alone names it."""

    about: str
    victim: str
    phases: tuple[str, ...] = NETWORK_PHASES


NETWORK_FAULTS: Final[Mapping[str, NetworkFault]] = {
    "partition": NetworkFault(
        about="no packet passes between clients for 2 s, and until the kernel has refused one",
        victim="clients",
    ),
    "pause": NetworkFault(about="the last node is frozen for 2 s", victim="last"),
    "cuts": NetworkFault(
        about="no packet passes between clients for 2 s, again 8 s later, and so on",
        victim="clients",
        phases=("case",),
    ),
    "reset": NetworkFault(
        about="the channels between clients are reset",
        victim="clients",
        phases=("case", "finalize"),
    ),
}
"""By act; each is ``fault=ACT@PHASE`` in a cell's name."""
_FAULTS: Final = tuple(
    Fault(act, kind.victim, phase)
    for act, kind in NETWORK_FAULTS.items()
    for phase in kind.phases
)
FAULTS: Final[Mapping[str, Fault]] = {
    **{str(fault): fault for fault in _FAULTS},
    **HITS,
}
"""All faults, of networks and of the fault matrix, as a cell's name has them."""
FAULT_VALUES: Final = tuple(map(str, _FAULTS))
"""The faults of networks, as a cell's name has them."""
_ROUNDS: Final = 50


def _steady(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for each in messages(around(roster), 7, by_rank(nonce, "steady/*", 256)):
        yield replace(each, count=_ROUNDS)


OFTEN: Final = ("", "net=wan", "fault=partition@case")
"""Variants that stand for all others if time is short."""
ONLY_WIDE: Final = (
    "hosts=client,reach=heads",
    "reach=routed",
    "reach=nat",
    "auth=challenge,reach=nat",
)
"""Variants for clients of several nodes."""
NETWORK_CASES: Final = (
    Case(
        "network.steady",
        ("2.3.7", "3.8"),
        ("network", "failure"),
        1,
        _steady,
        params={"rounds": _ROUNDS},
        variants=(
            "",
            *ONLY_WIDE,
            "ip=6",
            "ip=two",
            "reach=outward",
            "auth=challenge,reach=relay",
            "reach=ports",
            "hosts=client,reach=port",
            *(f"net={name}" for name in PROFILES),
            *(f"fault={fault}" for fault in _FAULTS if not fault.what.again_s),
        ),
    ),
)
