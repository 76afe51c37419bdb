"""Jobs of a capture are told apart, and what is not a channel is not taken for one."""

from __future__ import annotations

import pytest
from conversations import (
    Talk,
    add_channel,
    add_job,
    add_startup,
    header,
    octets,
    streams,
)
from pcapmaker import PcapMaker

from impi.lab.dissect.jobs.job_finder import ObservedJob, observe
from impi.lab.dissect.show.record_list import records, wrong
from impi.lab.dissect.show.text import as_line
from impi.lab.dissect.streams.pcap import Segment, read_pcap
from impi.lab.dissect.streams.tcp import reassemble


def jobs(capture: bytes) -> list[ObservedJob]:
    return observe(
        reassemble(s for s in read_pcap(capture) if isinstance(s, Segment))
    ).jobs


def test_jobs_are_told_apart():
    maker = PcapMaker()
    add_job(maker, "short", server=50000, port=51000)
    add_job(maker, "many", server=50000, port=51100)  # a later server at the same port
    add_startup(maker, "exact", 50001, 51200)
    add_startup(maker, "zero", 50002, 51300)  # two at the same time
    add_channel(maker, "zero", 51309)
    add_channel(maker, "exact", 51209)
    maker.connection(
        ("127.0.0.1", 51400),
        ("127.0.0.1", 51401),
        b"GET / HTTP/1.0\r\n\r\n",
        b"HTTP/1.0 404\r\n" * 20,
    )
    seen = observe(
        reassemble(s for s in read_pcap(maker.bytes()) if isinstance(s, Segment))
    )
    assert seen.others == 1
    assert len(seen.jobs) == 4
    every = records(seen.jobs)
    assert [r for r in every if wrong(r)] == []
    for number, case in enumerate(["short", "many", "exact", "zero"]):
        assert len(seen.jobs[number].conversations) == 2
        assert sum(r.size for r in every if r.job == number) == sum(
            map(len, streams(case).values())
        )
    assert "[job 2] client 0 rank 0" in "\n".join(
        as_line(r, start=0.0, clocked=True, several=True, whole=False) for r in every
    )


def test_clients_that_use_two_addresses_of_the_server_are_of_one_job():
    maker = PcapMaker()
    for client, address in enumerate(("127.0.0.1", "10.0.0.9")):
        both = (
            octets("short", f"client{client}_to_server"),
            octets("short", f"server_to_client{client}"),
        )
        maker.connection((address, 51000 + client), (address, 50000), *both, mss=17)
    add_channel(maker, "short", 51009)
    (job,) = jobs(maker.bytes())
    assert (len(job.conversations), len(job.channels)) == (2, 1)


@pytest.mark.parametrize(
    "stray",
    [
        b"",
        b"\0\0\0\1",
        b"\0\0\0\0" + header(),
        b"\0\0\0\1" + bytes(128),
        b"\0\0\0\1" + header()[:127],
        bytes(400),
    ],
)
def test_what_is_no_channel_is_not_taken_for_one(stray):
    talk = Talk()
    talk.say(True, stray)
    talk.close()
    seen = observe(
        reassemble(s for s in read_pcap(talk.maker.bytes()) if isinstance(s, Segment))
    )
    assert (seen.jobs, seen.others) == ([], 1)
