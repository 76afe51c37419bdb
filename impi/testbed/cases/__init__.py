"""The cases of the matrix, each one a declaration beside a program of ``impi.testbed.programs``."""

from __future__ import annotations

from typing import Final

from impi.testbed.cases.basics import BASIC_CASES
from impi.testbed.cases.case import Case, Crossing, Ends
from impi.testbed.cases.collectives import COLLECTIVE_CASES
from impi.testbed.cases.communicators import COMMUNICATOR_CASES
from impi.testbed.cases.fault_matrix import FAULT_CASES
from impi.testbed.cases.file_cases import FILE_CASES
from impi.testbed.cases.forms import FORM_CASES
from impi.testbed.cases.later_cases import LATER_CASES
from impi.testbed.cases.lost_clients import SURVIVAL_CASES
from impi.testbed.cases.network_faults import NETWORK_CASES
from impi.testbed.cases.object_cases import OBJECT_CASES
from impi.testbed.cases.p2p import P2P_CASES
from impi.testbed.cases.reductions import REDUCTION_CASES
from impi.testbed.cases.requests import REQUEST_CASES
from impi.testbed.cases.soak import SOAK_CASES
from impi.testbed.cases.start_and_end import JOB_CASES
from impi.testbed.cases.window_cases import WINDOW_CASES

__all__ = ["CASES", "TAGS", "Case", "Crossing", "Ends"]

_ALL: Final = (
    *JOB_CASES,
    *P2P_CASES,
    *REQUEST_CASES,
    *COLLECTIVE_CASES,
    *BASIC_CASES,
    *FORM_CASES,
    *REDUCTION_CASES,
    *COMMUNICATOR_CASES,
    *WINDOW_CASES,
    *SURVIVAL_CASES,
    *FILE_CASES,
    *LATER_CASES,
    *OBJECT_CASES,
    *NETWORK_CASES,
    *FAULT_CASES,
    *SOAK_CASES,
)
CASES: Final = {case.name: case for case in _ALL}
"""All cases by name, in the order in which they are shown and run."""

TAGS: Final = tuple(dict.fromkeys(label for case in CASES.values() for label in case.labels))
"""All tags of all cases."""
