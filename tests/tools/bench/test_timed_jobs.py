"""Jobs that are timed."""

from __future__ import annotations

import pytest

from impi.base.errors import LaunchError
from impi.tools.bench.timed_jobs import Client, Imp


def test_a_job_that_fails_says_which_and_why() -> None:
    with pytest.raises(LaunchError, match=r"IMPI pure:1\+pure:1 failed; client"):
        Imp(
            clients=(Client("pure"), Client("pure")),
            argv=("pointtopoint.py", "nonsense"),
        ).run()
