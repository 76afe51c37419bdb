"""Recorded conversations as fake peers: exactly the deviations that tests/vectors lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.cli.impi import main
from impi.lab.conform.outcomes import ClauseVerdict
from impi.lab.conform.replay import judge, read_streams, replay
from impi.lab.conform.script.script_files import all_tests

VECTORS = Path(__file__).parents[2] / "vectors"
CASES = sorted(path.parent.name for path in VECTORS.glob("*/client0_to_server.bin"))
UNUSED, CONTEXT = "3.5/unused-fields-are-zero", "4.3/reduce-on-its-context"


@pytest.mark.parametrize("case", CASES)
def test_exactly_the_listed_deviations(case: str) -> None:
    tests = [test for test in all_tests() if not test.server]
    outcomes = judge(VECTORS / case, tests)
    broken = {
        outcome.test for outcome in outcomes if outcome.verdict is ClauseVerdict.BROKEN
    }
    assert broken == (
        {UNUSED, CONTEXT} if case in ("reduce", "allreduce") else {UNUSED}
    )
    assert {outcome.verdict for outcome in outcomes} == {
        ClauseVerdict.HOLDS,
        ClauseVerdict.BROKEN,
        ClauseVerdict.UNTESTED,
    }


def test_all_octets_arrive() -> None:
    job = replay(VECTORS / "long")
    assert len(job.conversations) == 2
    assert sum(len(packet.payload) for packet in job.channels[0].packets) == 400000


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["conform", "--replay", str(VECTORS / "reduce")]) == 1
    assert "context id 0, not 1" in capsys.readouterr().out
    assert main(["conform", "--replay", str(VECTORS / "zero")]) == 0  # a SHOULD alone
    with pytest.raises(UsageError, match="no recorded conversation"):
        read_streams(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_streams(tmp_path / "missing")
