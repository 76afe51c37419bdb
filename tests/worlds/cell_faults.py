"""Faults of a forged job, and the item that catches each."""

from __future__ import annotations

import struct
from dataclasses import replace

from forge import Job

from impi.base.remote.supervised import Completed
from impi.lab.cases.case import Told


def one_of_one(job: Job) -> None:
    for rank in (2, 3):
        for table in (job.init, job.done):
            table[rank] = {
                **table[rank],
                "rank": 0,
                "size": 1,
                "local": {"vendor": "openmpi", "size": 1, "messages": 0},
            }
    job.startup_said[1] = []
    job.messages = []
    job.no_channel = {(low, high) for low in range(4) for high in range(4)}


def wrong_library(job: Job) -> None:
    job.identity[2]["libraries"] = {"/opt/mpich/libmpi.so": "aa" * 32}


def no_library(job: Job) -> None:
    job.identity[2]["libraries"] = {}


def second_library(job: Job) -> None:
    job.identity[2]["libraries"]["/opt/mpich/libmpi.so"] = "aa" * 32


def nobody_looked(job: Job) -> None:
    job.identity[3]["error"] = "/proc/103/maps: gone"


def another_source(job: Job) -> None:
    job.identity[2]["sources"]["impi.MPI"] = "cc" * 32


def unplanned_source(job: Job) -> None:
    job.identity[2]["sources"]["impi.patched"] = "cc" * 32


def no_source(job: Job) -> None:
    del job.identity[2]["sources"]


def small_vendor_world(job: Job) -> None:
    for table in (job.init, job.done):
        table[1] = {**table[1], "local": {"vendor": "mpich", "size": 1, "messages": 5}}


def silent_vendor(job: Job) -> None:
    for table in (job.init, job.done):
        table[1] = {**table[1], "local": None}


def no_local_messages(job: Job) -> None:
    for rank in (0, 1):
        job.done[rank] = {
            **job.done[rank],
            "local": {"vendor": "mpich", "size": 2, "messages": 0},
        }


def another_disk(job: Job) -> None:
    for table in (job.init, job.done):
        table[3] = {**table[3], "node_nonce": job.node_nonces["c0n0"]}


def another_process(job: Job) -> None:
    job.pids[3] = 999


def did_not_come(job: Job) -> None:
    job.startup_said[1] = []


def one_report_less(job: Job) -> None:
    del job.init[3], job.done[3]


def wrong_check(job: Job) -> None:
    job.done[3] = {
        **job.done[3],
        "failures": [{"check": "octets", "expected": "01", "actual": "02"}],
    }


def fewer_checks(job: Job) -> None:
    job.done[3] = {**job.done[3], "performed": 3}


def early_exit(job: Job) -> None:
    for rank in range(4):
        del job.done[rank]
    job.wraps[2]["ended"] = 1.0


def sends_nothing(job: Job) -> None:
    job.messages = [m for m in job.messages if m.tag == 110]


def one_message_less(job: Job) -> None:
    job.messages.remove(next(m for m in job.messages if m.tag == 8))


def swapped(job: Job) -> None:
    def little(data: bytes) -> bytes:
        return b"".join(data[i : i + 8][::-1] for i in range(0, len(data), 8))

    job.messages = [
        replace(m, payload=little(m.payload or b"")) if m.tag == 8 else m
        for m in job.messages
    ]


def one_message_twice(job: Job) -> None:
    job.messages.append(next(m for m in job.messages if m.tag == 8 and m.src == 3))


def unknown_tag(job: Job) -> None:
    job.messages.append(replace(job.messages[0], tag=99))


def tag_of_16_bits(job: Job) -> None:
    job.messages = [
        replace(m, tag=m.tag & 7) if m.tag == 8 else m for m in job.messages
    ]


def unknown_context(job: Job) -> None:
    job.messages.append(
        replace(next(m for m in job.messages if m.tag == 110), cid=2003)
    )


def wrong_lsrank(job: Job) -> None:
    job.messages = [replace(m, header=Told(0, m.header.elements)) for m in job.messages]


def wrong_count(job: Job) -> None:
    job.messages = [replace(m, header=Told(m.header.lsrank, 0)) for m in job.messages]


def no_barrier_at_the_end(job: Job) -> None:
    job.messages.remove(next(m for m in reversed(job.messages) if m.tag == 110))


def wrong_here_and_there(job: Job) -> None:
    swapped(job)
    wrong_check(job)


def no_such_packet(job: Job) -> None:
    job.extra[1, 2] = struct.pack(">I", 9) + bytes(124)


def stray_syncack(job: Job) -> None:
    job.extra[2, 1] = job.packet(3, 2, 1, srqid=99)


def early_protoack(job: Job) -> None:
    job.extra[2, 1] = job.packet(2, 2, 1)


def no_credit(job: Job) -> None:
    # Ranks 1 and 3 send three messages; 3's channel is opened first
    job.ackmark = job.hiwater = 2
    for src, dest in ((2, 1), (0, 3), (2, 0), (0, 2)):
        job.extra[src, dest] = job.packet(2, src, dest)


def no_protoack(job: Job) -> None:
    job.ackmark = 3


def label_twice(job: Job) -> None:
    job.startup_said[1] = ["COLL", *job.startup_said[1]]


def after_fini(job: Job) -> None:
    job.extra[2, 1] = job.packet(7, 2, 1) + job.packet(4, 2, 1)
    job.no_fini.add((2, 1))


def no_channel(job: Job) -> None:
    job.no_channel.add((0, 3))


def bad_status(job: Job) -> None:
    job.wraps[1]["status"] = -11


def no_status(job: Job) -> None:
    job.wraps[1]["status"] = None


def bad_impirun(job: Job) -> None:
    job.clients[1] = Completed(
        argv=(), code=1, stdout=b"", stderr=b"impirun: something\n"
    )


def bad_server(job: Job) -> None:
    job.server = Completed(argv=(), code=1, stdout=b"", stderr=b"")


def no_host_fini(job: Job) -> None:
    job.no_fini.add((3, 0))


def no_client_fini(job: Job) -> None:
    job.startup_said[0] = ["DONE"]


def leaves_a_process(job: Job) -> None:
    job.leftovers.append("c1n0: sleep 1000")


def leaves_a_child(job: Job) -> None:
    job.clients[0] = Completed(
        argv=(), code=0, stdout=b"", stderr=b"", leftovers=("sleep 7",)
    )


def no_address(job: Job) -> None:
    job.server = Completed(
        argv=(), code=2, stdout=b"Usage:\n", stderr=b"Error: no method\n"
    )


FAULTS = [
    (one_of_one, "init", "identity.world", "client 1"),
    (another_source, "init", "identity.source", "client 1 (openmpi) rank 2"),
    (unplanned_source, "init", "identity.source", "client 1 (openmpi) rank 2"),
    (no_source, "init", "identity.source", "client 1 (openmpi) rank 2"),
    (wrong_library, "init", "identity.library", "client 1 (openmpi) rank 2"),
    (no_library, "init", "identity.library", "client 1"),
    (second_library, "init", "identity.library", "client 1"),
    (nobody_looked, "init", "identity.library", "rank 3"),
    (small_vendor_world, "init", "identity.world", "rank 1"),
    (silent_vendor, "init", "identity.world", "rank 1"),
    (no_local_messages, "case", "identity.counter", "client 0"),
    (another_disk, "init", "placement", "rank 3"),
    (another_process, "coll", "identity.pid", "rank 3"),
    (did_not_come, "coll", "start.reach", "client 1"),
    (one_report_less, "init", "start.ranks", "rank 3"),
    (wrong_check, "case", "end.checks", "rank 3"),
    (fewer_checks, "case", "end.checks", "rank 3"),
    (early_exit, "case", "end.checks", "rank 2"),
    (sends_nothing, "case", "traffic.crossing", "client 0 (mpich) rank 1"),
    (one_message_less, "case", "traffic.crossing", "client 0 (mpich) rank 1"),
    (swapped, "case", "traffic.payload", "client 1 (openmpi) rank 3"),
    (wrong_here_and_there, "case", "traffic.payload", "client 1 (openmpi) rank 3"),
    (one_message_twice, "case", "traffic.extra", "client 1 (openmpi) rank 3"),
    (unknown_tag, "case", "traffic.extra", "client 0 (mpich) rank 1"),
    (tag_of_16_bits, "case", "traffic.extra", "client 1 (openmpi) rank 3"),
    (unknown_context, "case", "traffic.extra", "client 1 (openmpi) rank 2"),
    (wrong_lsrank, "case", "traffic.header", "rank"),
    (wrong_count, "case", "traffic.header", "rank"),
    (no_barrier_at_the_end, "finalize", "traffic.crossing", "client 0 (mpich) rank 0"),
    (no_such_packet, "case", "traffic.protocol", "client 0 (mpich) rank 1"),
    (stray_syncack, "case", "traffic.protocol", "client 1 (openmpi) rank 2"),
    (early_protoack, "case", "traffic.protocol", "client 1 (openmpi) rank 2"),
    (no_credit, "case", "traffic.protocol", "client 1 (openmpi) rank 3"),
    (no_protoack, "case", "traffic.protocol", "client 0 (mpich) rank 0"),
    (label_twice, "coll", "start.protocol", "client 1"),
    (after_fini, "case", "traffic.protocol", "client 1 (openmpi) rank 2"),
    (no_channel, "mesh", "start.mesh", "host 3"),
    (bad_status, "finalize", "end.status", "rank 1"),
    (no_status, "finalize", "end.status", "rank 1"),
    (bad_impirun, "fini", "end.status", "client 1"),
    (bad_server, "fini", "end.status", "server"),
    (no_host_fini, "finalize", "end.fini", "host 3"),
    (no_client_fini, "fini", "end.fini", "client 0"),
    (leaves_a_process, "down", "end.leftovers", "c1n0"),
    (leaves_a_child, "down", "end.leftovers", "client 0"),
    (no_address, "server", "start.server", "server"),
]


def log(
    number: int, name: str, began: float, ended: float, **more: object
) -> list[dict]:
    common = {"n": number, "do": name, "t": began, "comm": "MPI_COMM_WORLD"}
    return [{**common, **more}, {"n": number, "t": ended}]


WRONG_KEY = ("startup.wrong-key", ("mpich", "openmpi"), "1x2+1x2")


def silent_server(job: Job) -> None:
    job.server = Completed(argv=(), code=0, stdout=b"", stderr=b"")
