from __future__ import annotations

from conversations import CASES, job_pcap, streams

from impi.lab.dissect.jobs.job_finder import ObservedJob, observe
from impi.lab.dissect.jobs.raw import observe_streams
from impi.lab.dissect.show.record_list import records
from impi.lab.dissect.show.summary import Summary, summarize
from impi.lab.dissect.streams.pcap import Segment, read_pcap


def summary(case: str) -> Summary:
    job = observe_streams(streams(case))
    return summarize(0, job, records([job]))


def test_many():
    """100 messages one way; a PROTOACK every 10."""
    found = summary("many")
    assert (found.clients, found.hosts, found.procs, found.errors, found.gaps) == (
        2,
        2,
        4,
        0,
        0,
    )
    assert found.limits == {
        "C_DATALEN": 65536,
        "C_TAGUB": 2147483647,
        "H_ACKMARK": 10,
        "H_HIWATER": 20,
    }
    assert found.kinds["host 0 -> host 1"] == {"DATA": 101, "FINI": 1}
    assert found.kinds["host 1 -> host 0"] == {
        "HOSTRANK": 1,
        "PROTOACK": 10,
        "DATA": 2,
        "FINI": 1,
    }
    (pair,) = (p for p in found.pairs if (p.src, p.dest) == ("rank 0", "rank 2"))
    assert (pair.account.messages, pair.account.octets, pair.account.protoacks) == (
        101,
        400,
        10,
    )
    assert 10 <= pair.account.max_outstanding <= 20


def test_synchronous_sends_are_all_acknowledged():
    found = summary("p_ssend")
    assert sum(p.account.syncs for p in found.pairs) > 0
    assert sum(p.account.unacknowledged for p in found.pairs) == 0
    assert sum(p.account.stray_syncacks for p in found.pairs) == 0


def test_nothing_is_counted_twice_or_left_out():
    for case in CASES:
        found = summary(case)
        assert found.octets == sum(map(len, streams(case).values()))


def test_people_and_programs_are_told_the_same():
    found = summary("many")
    value = found.as_object()
    text = "\n".join(found.as_lines())
    assert "job 0: 2 clients, 2 hosts, 4 procs" in text
    assert "in force: C_DATALEN 65536" in text
    pairs = value["pairs"]
    assert isinstance(pairs, list)
    assert pairs[0]["messages"] == 101
    (line,) = (
        line for line in found.as_lines() if line.startswith("  rank 0 -> rank 2")
    )
    most = pairs[0]["max_outstanding"]
    assert line.split()[5:] == ["101", "400", "101", "10", f"{most}/20", "0", "0"]


def test_one_job_of_several():
    jobs: list[ObservedJob] = [
        observe_streams(streams(case)) for case in ("short", "many")
    ]
    every = records(jobs)
    assert summarize(1, jobs[1], every).octets == sum(
        map(len, streams("many").values())
    )


def test_without_the_labels_the_size_is_unknown():
    (job,) = observe(reassemble_channel("many")).jobs
    found = summarize(0, job, records([job]))
    assert (found.clients, found.limits) == (None, {})
    assert "of unknown size" in found.as_lines()[0]
    assert any("127.0.0.2/" in line and " ? " in line for line in found.as_lines())


def reassemble_channel(case: str):
    from impi.lab.dissect.streams.tcp import reassemble

    segments = [s for s in read_pcap(job_pcap(case)) if isinstance(s, Segment)]
    return [c for c in reassemble(segments) if c.forth.data[:4] != b"AUTH"]
