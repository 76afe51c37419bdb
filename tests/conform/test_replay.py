"""Recorded conversations as fake peers: exactly the deviations that tests/vectors lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.cli.impi import main
from impi.conform import deviations
from impi.conform.outcomes import Verdict
from impi.conform.replay import judge, read_streams, replay
from impi.conform.script_files import all_tests
from impi.errors import UsageError

VECTORS = Path(__file__).parents[1] / "vectors"
CASES = sorted(path.parent.name for path in VECTORS.glob("*/client0_to_server.bin"))
UNUSED, CONTEXT = "3.5/unused-fields-are-zero", "4.3/reduce-on-its-context"


@pytest.mark.parametrize("case", CASES)
def test_exactly_the_listed_deviations(case: str) -> None:
    tests = [test for test in all_tests() if not test.server]
    outcomes = judge(VECTORS / case, tests)
    broken = {outcome.test for outcome in outcomes if outcome.verdict is Verdict.BROKEN}
    assert broken == ({UNUSED, CONTEXT} if case in ("reduce", "allreduce") else {UNUSED})
    assert {outcome.verdict for outcome in outcomes} == {Verdict.HOLDS, Verdict.BROKEN, Verdict.UNTESTED}


def test_all_octets_arrive() -> None:
    job = replay(VECTORS / "long")
    assert len(job.conversations) == 2
    assert sum(len(packet.payload) for packet in job.channels[0].packets) == 400000


def test_the_listed_fields_are_told_by_name() -> None:
    job = replay(VECTORS / "p_ssend")
    said = [text for rule, text, _ in deviations.habits(job.channels, job.layout) if rule == deviations.UNUSED_FIELDS]
    fini = next(text for text in said if text.startswith("FINI"))
    assert "pk_src_pid -1, pk_dest_pid -1" in fini
    assert any(text.startswith("SYNCACK") and "pk_len 128, pk_msglen 128" in text for text in said)
    assert all("pk_lsrank -1" in text and "pk_tag -1" in text for text in said)


def test_unused_fields_and_contexts_are_told_by_packet() -> None:
    job = replay(VECTORS / "reduce")
    found = list(deviations.habits(job.channels, job.layout))
    assert {client for _, _, client in found} == {0, 1}
    assert {rule for rule, _, _ in found} == {deviations.UNUSED_FIELDS, deviations.CONTEXT}


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["conform", "--replay", str(VECTORS / "reduce")]) == 1
    assert "context id 0, not 1" in capsys.readouterr().out
    assert main(["conform", "--replay", str(VECTORS / "zero")]) == 0  # a SHOULD alone
    with pytest.raises(UsageError, match="no recorded conversation"):
        read_streams(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_streams(tmp_path / "missing")
