"""Faults that the lab causes at a named phase of a job, and how the job must end then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from impi.testbed.cases.case import Case, Crossing, Ends, around, messages
from impi.testbed.lab.lab_links import PROFILES
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import octets

PHASES: Final = ("init", "case", "finalize")
"""Before a rank initialises MPI; between its messages; after its last one, before MPI_Finalize."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault. The victim is the last client, or its last node."""

    about: str
    phases: tuple[str, ...] = PHASES
    lasts_s: float = 0.0
    """Then it is over, at the earliest; 0: it stays."""
    again_s: float = 0.0
    """So long after it is over it begins again, until the job has ended; 0: it does not."""
    ends: Callable[[Roster], Ends] | None = None
    """How the job must end; None: it goes on and ends well."""


def _all_fail(_roster: Roster) -> Ends:
    return Ends(everyone=True)


FAULTS: Final[Mapping[str, Fault]] = {
    "partition": Fault(about="no packet passes between clients for 2 s, and until one was refused", lasts_s=2.0),
    "pause": Fault(about="the last node is frozen for 2 s", lasts_s=2.0),
    "cuts": Fault(
        about="no packet passes between clients for 2 s, again 8 s later, and so on",
        phases=("case",),
        lasts_s=2.0,
        again_s=8.0,
    ),
    "reset": Fault(about="the channels between clients are reset", phases=("case", "finalize"), ends=_all_fail),
}
"""Faults of networks; each is ``fault=NAME@PHASE`` in a cell's name. The others: fault_matrix."""
_ROUNDS: Final = 50
FAULT_VALUES: Final = tuple(f"{name}@{phase}" for name, fault in FAULTS.items() for phase in fault.phases)


def _steady(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for each in messages(around(roster), 7, lambda r: octets(nonce, f"steady/{r}", 256)):
        yield replace(each, count=_ROUNDS)


OFTEN: Final = ("", "net=wan", "fault=partition@case")
"""Variants that stand for all of them where time is short."""
ONLY_WIDE: Final = ("hosts=client,reach=heads", "reach=routed", "auth=challenge,reach=nat")
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
            *(f"fault={value}" for value in FAULT_VALUES if not FAULTS[value.partition("@")[0]].again_s),
        ),
    ),
)
