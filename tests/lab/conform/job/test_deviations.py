"""Habits that cost nothing alone: unused fields, and Reduce's context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conversations import packet

from impi.lab.conform.job import deviations
from impi.lab.conform.replay import replay

VECTORS = Path(__file__).parents[3] / "vectors"


def test_the_listed_fields_are_told_by_name() -> None:
    job = replay(VECTORS / "p_ssend")
    said = [
        text
        for rule, text, _ in deviations.habits(job.channels, job.layout)
        if rule == deviations.UNUSED_FIELDS
    ]
    fini = next(text for text in said if text.startswith("FINI"))
    assert "pk_src_pid -1, pk_dest_pid -1" in fini
    assert any(
        text.startswith("SYNCACK") and "pk_len 128, pk_msglen 128" in text
        for text in said
    )
    assert all("pk_lsrank -1" in text and "pk_tag -1" in text for text in said)


def test_unused_fields_and_contexts_are_told_by_packet() -> None:
    job = replay(VECTORS / "reduce")
    found = list(deviations.habits(job.channels, job.layout))
    assert {client for _, _, client in found} == {0, 1}
    assert {rule for rule, _, _ in found} == {
        deviations.UNUSED_FIELDS,
        deviations.CONTEXT,
    }


def test_a_packet_as_the_clauses_have_it_has_no_habit() -> None:
    for kind in ("DATA", "PROTOACK", "SYNCACK", "CANCEL", "FINI"):
        ends: Any = (
            {"src": (bytes(16), 0), "dest": (bytes(16), 0)} if kind == "FINI" else {}
        )
        assert list(deviations.of_packet(packet(kind, **ends))) == []


def test_a_field_that_its_type_does_not_use() -> None:
    ((rule, told),) = deviations.of_packet(packet("CANCEL", srqid=3, drqid=4, tag=5))
    assert (rule, told) == (deviations.UNUSED_FIELDS, "CANCEL has pk_drqid 4, pk_tag 5")


def test_reduce_on_the_context_of_messages() -> None:
    ((rule, _),) = deviations.of_packet(packet("DATA", tag=190))
    assert rule == deviations.CONTEXT
    assert list(deviations.of_packet(packet("DATA", tag=190, cid=1))) == []
