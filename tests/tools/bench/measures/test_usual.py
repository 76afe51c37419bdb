"""The usual measures: without pins, spins and bytearrays; in two languages; beside references."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.cli.impi import main
from impi.tools.bench.experiment import Experiment
from impi.tools.bench.measures.effort import Effort
from impi.tools.bench.measures.usual import CALLS, IN_ONE_JOB, startup, usual
from impi.tools.bench.timed_jobs import Imp

ROOT = Path(__file__).parents[4]
VENDORS = ["pure", "mpich", "openmpi"]


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Restore the handler of SIGTERM, which a run in this process changes."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def made(
    effort: Effort = Effort(), names: tuple[str, ...] = IN_ONE_JOB
) -> list[Experiment]:
    return list(usual(names, VENDORS, effort))


def test_nothing_is_tuned_by_default() -> None:
    for experiment in made():
        ours = experiment.ours
        assert isinstance(ours, Imp)
        assert not {"--pin", "--data"} & set(ours.argv)
        assert {client.spin_s for client in ours.clients} == {None}
    assert {line.variant for one in made() for line in one.lines} == {
        "Python, 1+1",
        "C, 1+1",
        "Python, 2+2",
        "C, 2+2",
    }


def test_what_is_tuned_is_said() -> None:
    tuned = made(
        Effort(data="bytearray", spin_s=1.0, cores=(0, 1), languages=("python",))
    )
    assert {line.variant for one in tuned for line in one.lines} == {
        "Python, 1+1, bytearray, spinning 1 s, pinned",
        "Python, 2+2, bytearray, spinning 1 s",  # four ranks have no core each
    }
    ours = tuned[0].ours
    assert isinstance(ours, Imp)
    assert ours.clients[0].spin_s == 1.0
    assert ours.argv[-2:] == ("--pin", "0,1")


def test_all_of_a_layout_run_side_by_side_and_equal_jobs_are_one() -> None:
    by_word: dict[str, set[object]] = {}
    for one in made():
        by_word.setdefault(one.beside, set()).update((one.ours, *one.references))
    assert {word: len(jobs) for word, jobs in by_word.items()} == {
        "1+1": 2 * (6 + 2) + 2,  # languages, pairs, libraries; plain sockets
        "2+2": 2 * (6 + 2),
    }


def test_references_of_a_pair() -> None:
    def titles(vendors: str, variant: str) -> list[str]:
        [one] = [
            one
            for one in made()
            if one.vendors == vendors and one.lines[0].variant == variant
        ]
        return [job.title for job in one.references]

    sockets = ["plain sockets, spinning"] * 2
    assert titles("pure+openmpi", "Python, 1+1") == ["mpich's own TCP", *sockets]
    assert titles("openmpi+openmpi", "Python, 1+1") == [
        "mpich's own TCP",
        "openmpi's own TCP",
        *sockets,
    ]
    assert titles("pure+pure", "C, 2+2") == ["mpich's own TCP", "IMPI pure:2+pure:2"]


def test_without_libraries_there_are_plain_sockets_or_nothing() -> None:
    one, two = usual(IN_ONE_JOB, ["pure"], Effort(languages=("python",)))
    assert {line.measure for line in one.lines} == {"latency", "rate"}
    assert {line.measure for line in two.lines} == set(CALLS)
    assert {line.references for line in two.lines} == {()}
    [start] = startup(["pure"], Effort())
    assert [line.references for line in start.lines] == [()]


def test_messages_need_two_ranks_alone() -> None:
    assert {one.beside for one in made(names=("latency", "rate"))} == {"1+1"}


@pytest.mark.slow
@pytest.mark.vendor("mpich")
def test_a_real_run_in_both_languages(tmp_path: Path, own_signals: None) -> None:
    if not (ROOT / ".mpi" / "mpich" / "bin" / "mpiexec").exists():
        pytest.skip("mpich is not in .mpi/mpich: run ci/vendors.sh")
    file = tmp_path / "run.json"
    argv = [
        "latency",
        "rate",
        "collectives",
        "--sizes",
        "8,16K",
        "--quick",
        "--runs",
        "1",
        "--vendors",
        "pure,mpich",
    ]
    main(["bench", *argv, "--json", str(file)])
    rows = json.loads(file.read_text())["rows"]
    assert not [row["error"] for row in rows if row["error"]]
    assert {row["variant"] for row in rows} == {
        "Python, 1+1",
        "C, 1+1",
        "Python, 2+2",
        "C, 2+2",
    }
    assert all(row["value"] > 0 for row in rows)
