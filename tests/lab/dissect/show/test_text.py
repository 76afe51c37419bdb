"""Records as lines and as objects, field by field."""

from __future__ import annotations

import pytest
from conversations import streams

from impi.lab.dissect.jobs.raw import observe_streams
from impi.lab.dissect.show.record_list import FIELDS, Record, records
from impi.lab.dissect.show.text import as_line, as_object

EVERY = records([observe_streams(streams("long"))])


def first(kind: str) -> Record:
    return next(record for record in EVERY if record.kind == kind)


def line(record: Record, *, several: bool = False, whole: bool = False) -> str:
    return as_line(record, start=0.0, clocked=False, several=several, whole=whole)


def test_data_is_cut_unless_the_whole_is_asked_for():
    data = next(
        record
        for record in EVERY
        if record.kind == "DATASYNC" and len(record.data) > 16
    )
    assert as_object(data, whole=False)["data"] == data.data[:16].hex()
    assert as_object(data, whole=True)["data"] == data.data.hex()
    assert line(data).endswith(f"[{data.data[:16].hex()}...]")
    assert line(data, whole=True).endswith(f"[{data.data.hex()}]")


def test_objects_have_their_fields_in_one_order():
    for record in EVERY:
        names = list(as_object(record, whole=False))
        assert names == sorted(names, key=list(FIELDS).index)


def test_a_line_names_ranks_and_tells_only_what_its_type_uses():
    told = line(first("SYNCACK"))
    assert "client 1 rank 2 -> client 0 rank 0: SYNCACK srqid=" in told
    assert "drqid=" in told
    assert "tag=" not in told
    assert line(first("FINI")).endswith(": FINI")


def test_the_job_is_named_where_there_are_several():
    assert " [job 0] " in line(first("COLL"), several=True)
    assert "[job" not in line(first("COLL"))


@pytest.mark.parametrize(
    ("kind", "told"),
    [("IMPI", "IMPI "), ("COLL", "COLL "), ("DONE", "DONE"), ("FINI", "FINI")],
)
def test_commands_begin_with_their_word(kind: str, told: str):
    assert line(first(kind)).split(": ", 1)[1].startswith(told)
