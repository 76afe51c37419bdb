"""The cases of the matrix, each one a declaration beside a program of ``impi.lab.programs``."""

from __future__ import annotations

from typing import Final

from impi.lab.cases.calls.beyond import BEYOND_CASES
from impi.lab.cases.calls.collectives import COLLECTIVE_CASES
from impi.lab.cases.calls.communicators import COMMUNICATOR_CASES
from impi.lab.cases.calls.p2p import P2P_CASES
from impi.lab.cases.calls.reductions import REDUCTION_CASES
from impi.lab.cases.calls.window_cases import WINDOW_CASES
from impi.lab.cases.case import Case, Crossing, Ends
from impi.lab.cases.ends.fault_matrix import FAULT_CASES
from impi.lab.cases.ends.lost_clients import SURVIVAL_CASES
from impi.lab.cases.ends.network_faults import NETWORK_CASES
from impi.lab.cases.ends.soak import SOAK_CASES
from impi.lab.cases.ends.start_and_end import JOB_CASES

__all__ = ["CASES", "TAGS", "Case", "Crossing", "Ends"]

_ALL: Final = (
    *JOB_CASES,
    *P2P_CASES,
    *COLLECTIVE_CASES,
    *REDUCTION_CASES,
    *COMMUNICATOR_CASES,
    *WINDOW_CASES,
    *SURVIVAL_CASES,
    *BEYOND_CASES,
    *NETWORK_CASES,
    *FAULT_CASES,
    *SOAK_CASES,
)
CASES: Final = {case.name: case for case in _ALL}
"""All cases by name, in the order in which they are shown and run."""

TAGS: Final = tuple(
    dict.fromkeys(label for case in CASES.values() for label in case.labels)
)
"""All tags of all cases."""
