"""Any content of files and arguments, and how a program that gets it has to end."""

from __future__ import annotations

import os
from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from impi.base.errors import ImpiError

_EXAMPLES = "IMPI_FUZZ_EXAMPLES"
"""Variable by which ``make fuzz`` asks for more inputs, drawn anew each time."""
STARTED = 77
"""The exit code of the replacement for a job, a lab or a page."""

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)

CELL = "p2p.ring/mpich+pure/1x2+1x2"
RUN = {
    "argv": [],
    "backend": "local",
    "seed": 1,
    "started": 1.0,
    "source": "x",
    "builds": {},
    "cells": [{"id": CELL, "hash": "h"}],
    "excluded": [{"id": CELL, "reason": "r", "kind": "k"}],
}
RECORD = {
    "id": CELL,
    "hash": "h",
    "result": "pass",
    "self_reported": False,
    "outcome": "pass",
    "phase": "",
    "blame": "",
    "reason": "",
    "attempts": [
        {
            "outcome": "pass",
            "phase": "",
            "blame": "",
            "reason": "",
            "seconds": 1.0,
            "lab": "",
        }
    ],
}
RESULTS = {
    "backend": "local",
    "seconds": 1.0,
    "exit": 0,
    "totals": {"pass": 1},
    "cells": [RECORD | {"seconds": 1.0}],
}


def any_settings(examples: int) -> settings:
    """Return the settings of a test that draws ``examples`` inputs, the same in each run."""
    return settings(
        deadline=None,
        max_examples=int(os.environ.get(_EXAMPLES, examples)),
        suppress_health_check=[HealthCheck.function_scoped_fixture],
        derandomize=_EXAMPLES not in os.environ,
    )


def code_of(main: Callable[[list[str]], int], argv: list[str]) -> int:
    try:
        return main(argv)
    except SystemExit as end:
        assert isinstance(end.code, int), end.code
        return end.code
    except ImpiError as error:
        raise AssertionError(f"{argv}: {error!r} leaves the program") from error
