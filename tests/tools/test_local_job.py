"""Jobs that are run for their output: what they print, and what is said of one that fails."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from impi.base.errors import LaunchError
from impi.tools.local_job import LocalJob, _sigterm_deferred

PYTHON = [sys.executable, "-S", "-c"]


def run(*programs: tuple[str, str], limit_s: float = 60.0) -> list[str]:
    with LocalJob("the job", os.environ, limit_s) as job:
        for name, code in programs:
            job.start(name, [*PYTHON, code])
        return job.outputs()


def test_outputs_are_in_the_order_of_the_starts() -> None:
    assert run(("a", "import time; time.sleep(0.2); print(1)"), ("b", "print(2)")) == [
        "1\n",
        "2\n",
    ]


def test_variables_of_its_own_are_for_one_process() -> None:
    code = "import os; print(os.environ.get('OWN'), os.environ['ALL'])"
    with LocalJob("the job", {**os.environ, "ALL": "all"}, 60.0) as job:
        job.start("a", [*PYTHON, code], {"OWN": "own"})
        job.start("b", [*PYTHON, code])
        assert job.outputs() == ["own all\n", "None all\n"]


FAILS = "import sys; sys.stderr.write('impirun: first\\nthe reason\\n'); sys.exit(3)"
SLOW = "import time; time.sleep(1000)"


def test_the_program_that_failed_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("impi.tools.local_job._GRACE_S", 0.2)
    with pytest.raises(
        LaunchError, match=r"^the job failed; client 1 said: the reason$"
    ):
        run(("server", SLOW), ("client 0", SLOW), ("client 1", FAILS))


def test_a_client_that_fails_after_the_server_says_more() -> None:
    late = f"import time; time.sleep(0.5); {FAILS}"
    with pytest.raises(LaunchError, match=r"client 0 said: the reason"):
        run(
            ("server", "raise SystemExit('impirun: a client is lost')"),
            ("client 0", late),
        )


def test_a_client_that_was_lost_for_the_failure_of_another_says_less() -> None:
    lost = "raise SystemExit('impirun: client 0: no server answers')"
    late = f"import time; time.sleep(0.5); {FAILS}"
    with pytest.raises(LaunchError, match=r"client 1 said: the reason"):
        run(("client 0", lost), ("client 1", late))


@pytest.mark.parametrize(
    "said", ["impirun: client 0: no server answers", "impi: client 1: no such folder"]
)
def test_a_mistake_of_the_user_says_more_than_a_loss(said: str) -> None:
    lost = f"raise SystemExit({said!r})"
    wrong = "import sys, time; time.sleep(0.5); sys.stderr.write('impirun: client 1: no such folder'); sys.exit(4)"
    with pytest.raises(
        LaunchError, match=r"client 1 said: impirun: client 1: no such folder"
    ):
        run(("client 0", lost), ("client 1", wrong))


def test_a_server_that_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("impi.tools.local_job._GRACE_S", 0.2)
    with pytest.raises(LaunchError, match=r"server said: impirun: no room$"):
        run(("server", "raise SystemExit('impirun: no room')"), ("client 0", SLOW))


def test_nothing_outlives_a_job_that_takes_too_long() -> None:
    with (
        pytest.raises(
            LaunchError, match=r"^the job has not ended within 0 s: end what else runs"
        ),
        LocalJob("the job", os.environ, 0.3) as job,
    ):
        job.start("client 0", [*PYTHON, SLOW])
        process = job._parts[0].process
        job.outputs()
    assert process.returncode == -signal.SIGTERM


def test_a_server_without_an_address() -> None:
    with (
        pytest.raises(LaunchError, match=r"server said: .*-server"),
        LocalJob("the job", os.environ, 60.0) as job,
    ):
        job.start_impi([], ["true"])


def test_a_program_that_is_not_there() -> None:
    why = r"the job: /nowhere/mpiexec could not be started: No such file"
    with (
        pytest.raises(LaunchError, match=why),
        LocalJob("the job", os.environ, 60.0) as job,
    ):
        job.start("mpiexec", ["/nowhere/mpiexec"])


def test_a_start_is_not_interrupted_between_the_process_and_its_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[bool] = []
    entered = False
    # The tests' own runner may be ended meanwhile
    monkeypatch.setattr(signal, "SIGTERM", signal.SIGUSR2)
    before = signal.signal(signal.SIGUSR2, lambda *_: told.append(entered))
    try:
        with _sigterm_deferred():
            signal.raise_signal(signal.SIGUSR2)
            entered = True
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert told == [True]
