"""Messages of random lengths, datatypes and modes, for a long time (IMPI 3.5 to 3.8).

Nothing may be lost, doubled, reordered or changed, and memory stays flat. The program runs in
rounds. In each, every ordered pair of ranks exchanges a few messages. Receives of the lane
``posted`` come first, then a collective, then sends; then the lane ``turn``, which blocks both ends
in one order of all ranks; then the lane ``any``, received by wildcards.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeAlias

from stage import stage  # type: ignore[import-not-found]

stage("init")

from mpi4py import MPI  # noqa: E402
from report import Report  # type: ignore[import-not-found]  # noqa: E402
from soak_parts import Datatypes, Pace  # type: ignore[import-not-found]  # noqa: E402
from soak_streams import (  # type: ignore[import-not-found]  # noqa: E402
    ROUND,
    TAGS,
    Ledger,
    Source,
    Stream,
    flat,
    gather,
    mix,
    scatter,
    space,
)

# Objects of MPI, for which mpi4py has no types here: a request, a status, a communicator
Handle: TypeAlias = Any
Buffer: TypeAlias = list[Any]  # memory, elements, datatype

report = Report(MPI, logged=False)
params = report.plan["params"]
world = MPI.COMM_WORLD
me, size = report.rank, report.size
SEED = (
    int.from_bytes(report.octets("soak", 4), "little")
    if params["seed"] is None
    else params["seed"]
)
# Octets that each receive has room for, so that a wrong message can still be told
SPARE = 4096
BUFFERED = 8192  # octets of the longest message by MPI_Bsend
NO_TAG = len(TAGS)  # a tag that no message has
MORE_EACH, COMM_EACH, CANCEL_EACH = 4, 64, 16  # rounds

source = Source(SEED, params["long"])
ledger = Ledger(source)
sent: dict[Stream, int] = {}
planned: Counter[Stream] = Counter()
modes: Counter[str] = Counter()
wrong: dict[str, list[str]] = {
    "raised": [],
    "status": [],
    "collectives": [],
    "cancelled": [],
}
comms = {
    "world": world,
    "reversed": world.Split(0, -me),
    "turn": world.Dup(),
    "any": world.Dup(),
}
types = Datatypes(MPI)
# The messages that this rank waits for; empty: it waits for receivers, or in a collective.
awaited: list[Stream] = []


def place(comm: str, rank: int) -> int:
    """Return a rank of MPI_COMM_WORLD in a communicator, or the reverse."""
    return size - 1 - rank if comm == "reversed" else rank


def where(stream: Stream, rank: int) -> tuple[Handle, int]:
    """Return the communicator of a stream, and a rank in it."""
    name = TAGS[stream.tag].comm
    return comms[name], place(name, rank)


def room(stream: Stream, octets: int) -> Buffer:
    """Return a buffer for a message of ``octets`` octets; it has room for SPARE octets at least."""

    shape = stream.shape
    octets = max(octets, SPARE - SPARE % shape.octets)
    name = TAGS[stream.tag].shape

    return [
        array(shape.letter, bytes(space(shape, octets))),
        octets // shape.octets,
        types[name],
    ]


def take(stream: Stream, buffer: Buffer, status: Handle) -> None:
    """Hold a message that has come against the one that is due."""

    name, shape = TAGS[stream.tag].comm, stream.shape

    told = (status.Get_source(), status.Get_tag())
    if told != (place(name, stream.source), stream.tag):
        wrong["status"].append(f"source and tag {told} for {stream}")

    ledger.take(
        stream, gather(shape, buffer[0], status.Get_count(buffer[2]) * shape.octets)
    )
    pace.moves()


# -- sends

NONBLOCKING = (
    "Isend",
    "Issend",
    "Ibsend",
    "Send_init",
    "Ssend_init",
    "Bsend_init",
    "Bsend",
)
MODES = {
    "any": NONBLOCKING,
    "posted": (*NONBLOCKING, "Send", "Ssend", "Rsend", "Irsend", "Rsend_init"),
    "turn": ("Send", "Ssend", "Bsend", "Isend", "Issend"),
}


def send(stream: Stream, held: list[tuple[Handle, Buffer]]) -> None:
    """Send the next message of a stream; an open request goes to ``held``, with its octets."""

    number = sent.get(stream, 0)
    sent[stream] = number + 1
    octets = source.octets(stream, number)
    lane = TAGS[stream.tag].lane

    mode = MODES[lane][mix(SEED, stream.key, number, 1) % len(MODES[lane])]
    if "bsend" in mode.lower() and len(octets) > BUFFERED:
        mode = mode.replace("Ib", "I").replace(
            "Bsend", "Send" if lane == "turn" else "Isend"
        )

    mode = mode.replace("Isend_init", "Send_init")
    modes[mode] += 1
    comm, dest = where(stream, stream.dest)
    buffer = [
        scatter(stream.shape, octets),
        len(octets) // stream.shape.octets,
        types[TAGS[stream.tag].shape],
    ]

    request = getattr(comm, mode)(buffer, dest, stream.tag)
    if request is None:
        return

    if mode.endswith("_init"):
        request.Start()

    if lane == "turn":
        request.Wait()
    else:
        held.append((request, buffer))


# -- receives


def post(stream: Stream, ahead: int) -> tuple[Handle, Buffer]:
    """Receive a message of the lane ``posted``, ``ahead`` messages after the one that is due."""

    number = ledger.due(stream) + ahead
    buffer = room(stream, source.size(stream, number))

    comm, rank = where(stream, stream.source)
    if mix(SEED, stream.key, number, 2) % 3:
        modes["Irecv"] += 1
        return comm.Irecv(buffer, rank, stream.tag), buffer

    modes["Recv_init"] += 1
    request = comm.Recv_init(buffer, rank, stream.tag)
    request.Start()

    return request, buffer


RECEIVES = ("Recv", "Irecv", "Probe", "Mprobe", "Iprobe", "Improbe")


def found(comm: Handle, mode: str, rank: int, tag: int, status: Handle) -> Handle:
    """Wait by a probe; return the matched message, if the probe gives one."""

    modes[mode] += 1
    if mode == "Probe":
        return comm.Probe(rank, tag, status)

    if mode == "Mprobe":
        return comm.Mprobe(rank, tag, status)

    while not (there := getattr(comm, mode)(rank, tag, status)):
        time.sleep(0)

    return there


def receive(stream: Stream) -> None:
    """Receive the next message of the lane ``turn``."""

    number = ledger.due(stream)
    mode = RECEIVES[mix(SEED, stream.key, number, 3) % len(RECEIVES)]
    comm, rank = where(stream, stream.source)
    status = MPI.Status()

    awaited[:] = [stream]
    if mode in ("Recv", "Irecv"):
        modes[mode] += 1
        buffer = room(stream, source.size(stream, number))

        request = getattr(comm, mode)(
            buffer, rank, stream.tag, *([status] if mode == "Recv" else [])
        )
        if request is not None:
            request.Wait(status)
    else:
        there = found(comm, mode, rank, stream.tag, status)

        buffer = room(
            stream,
            status.Get_count(types[TAGS[stream.tag].shape]) * stream.shape.octets,
        )
        if mode in ("Mprobe", "Improbe"):
            there.Recv(buffer, status)
        else:
            comm.Recv(buffer, rank, stream.tag, status)

    awaited.clear()
    take(stream, buffer, status)


WILD = ("Recv", "Irecv", "Probe", "Mprobe", "Iprobe", "Improbe")


def receive_any(left: Counter[int], turn: int) -> None:
    """Receive a message of the lane ``any``: from any source, at times with any tag."""

    comm, status = comms["any"], MPI.Status()
    mode = WILD[mix(SEED, me, turn, 4) % len(WILD)]
    tags = [tag for tag in left if left[tag]]
    tag = tags[mix(SEED, me, turn, 5) % len(tags)]
    wanted = (
        MPI.ANY_TAG
        if mode not in ("Recv", "Irecv") and mix(SEED, me, turn, 6) % 2
        else tag
    )

    awaited[:] = [
        Stream(rank, me, each)
        for each in tags
        for rank in range(size)
        if wanted in (each, MPI.ANY_TAG)
    ]
    if mode in ("Recv", "Irecv"):
        modes[f"{mode} of any source"] += 1
        buffer = room(Stream(0, me, tag), params["long"])

        request = getattr(comm, mode)(
            buffer, MPI.ANY_SOURCE, tag, *([status] if mode == "Recv" else [])
        )
        if request is not None:
            request.Wait(status)
    else:
        there = found(comm, mode, MPI.ANY_SOURCE, wanted, status)
        stream = Stream(status.Get_source(), me, status.Get_tag())

        buffer = room(
            stream,
            status.Get_count(types[TAGS[stream.tag].shape]) * stream.shape.octets,
        )
        if mode in ("Mprobe", "Improbe"):
            there.Recv(buffer, status)
        else:
            comm.Recv(buffer, stream.source, stream.tag, status)

    stream = Stream(status.Get_source(), me, status.Get_tag())
    left[stream.tag] -= 1
    awaited.clear()
    take(stream, buffer, status)


def complete(requests: list[Handle], turn: int) -> list[Handle]:
    """Wait for all, in one of four ways; return their statuses."""

    how = mix(SEED, me, turn, 7) % 4

    statuses = [MPI.Status() for _ in requests]
    if how == 0 or not requests:
        MPI.Request.Waitall(requests, statuses)
    elif how == 1:
        while not MPI.Request.Testall(requests, statuses):
            time.sleep(0)
    elif how == 2:
        for _ in requests:
            status = MPI.Status()
            statuses[MPI.Request.Waitany(requests, status)] = status
    else:
        some = [MPI.Status() for _ in requests]
        while (indices := MPI.Request.Waitsome(requests, some)) is not None:
            for i, status in zip(indices, some, strict=False):
                statuses[i] = status

            some = [MPI.Status() for _ in requests]

    return statuses


# -- beside the messages


def held_to(what: str, actual: object, expected: object) -> None:
    """Note a wrong result of a collective."""
    modes[what] += 1
    if actual != expected:
        wrong["collectives"].append(
            f"{what}: {str(actual)[:60]} for {str(expected)[:60]}"
        )

    pace.moves()


def values(turn: int, rank: int, count: int) -> array[int]:
    """Return the values that a rank gives to a collective of a round."""
    return array("i", [mix(SEED, turn, rank) & 0xFFFF]) * count


def all_come(turn: int) -> None:
    """Perform a collective that no rank leaves before all have come."""

    which = mix(SEED, turn, 8) % 5
    name = ("world", "reversed", "turn")[mix(SEED, turn, 9) % 3]
    comm, count = comms[name], 1 + mix(SEED, turn, 10) % 2000
    ranks = [place(name, r) for r in range(size)]

    one = [values(turn, rank, 1)[0] for rank in ranks]
    if which == 0:
        comm.Barrier()
        held_to("Barrier", 0, 0)
    elif which in (1, 2):
        total = array("i", bytes(4 * count))
        if which == 1:
            comm.Allreduce(values(turn, me, count), total)
        else:
            comm.Iallreduce(values(turn, me, count), total).Wait()

        held_to(
            "Allreduce" if which == 1 else "Iallreduce",
            total,
            array("i", [sum(one)]) * count,
        )
    elif which == 3:
        each = array("i", bytes(4 * size))
        comm.Allgather(values(turn, me, 1), each)
        held_to("Allgather", each.tolist(), one)
    else:
        each = array("i", bytes(4 * size))
        comm.Alltoall(values(turn, me, size), each)
        held_to("Alltoall", each.tolist(), one)


def more(turn: int) -> None:
    """Perform collectives with a root, and collectives of parts."""

    root, count = mix(SEED, turn, 11) % size, 1 + mix(SEED, turn, 12) % 20_000
    data = values(turn, root, count) if me == root else array("i", bytes(4 * count))
    world.Bcast(data, root)
    held_to("Bcast", data, values(turn, root, count))
    one = [values(turn, rank, 1)[0] for rank in range(size)]
    total = array("i", [0])
    world.Reduce(values(turn, me, 1), total if me == root else None, MPI.MAX, root)
    held_to("Reduce", total[0] if me == root else max(one), max(one))
    each = array("i", bytes(4 * size))
    world.Gather(values(turn, me, 1), each if me == root else None, root)
    held_to("Gather", each.tolist() if me == root else one, one)
    world.Scan(values(turn, me, 1), total)
    held_to("Scan", total[0], sum(one[: me + 1]))


def aside(turn: int) -> None:
    """Make and free a communicator, and cancel a receive."""
    if turn % COMM_EACH == 0:
        modes["Dup, Free"] += 1
        again = comms["reversed"].Dup()
        again.Barrier()
        again.Free()

    if turn % CANCEL_EACH == 0:
        modes["Cancel"] += 1
        status = MPI.Status()
        request = world.Irecv(array("B", bytes(8)), MPI.ANY_SOURCE, NO_TAG)
        request.Cancel()

        request.Wait(status)
        if not status.Is_cancelled():
            wrong["cancelled"].append(f"a receive of round {turn} was not taken back")


# -- a round


def post_all(incoming: list[Stream]) -> list[tuple[Stream, Handle, Buffer]]:
    """Begin the receives of the lane ``posted``."""

    ahead: Counter[Stream] = Counter()

    posted = []
    for stream in incoming:
        if TAGS[stream.tag].lane == "posted":
            posted.append((stream, *post(stream, ahead[stream])))
            ahead[stream] += 1

    return posted


def start_all(outgoing: list[list[Stream]]) -> list[tuple[Handle, Buffer]]:
    """Start the sends of requests that are posted, or that wildcards receive later."""
    held: list[tuple[Handle, Buffer]] = []
    for stream in (each[i] for i in range(ROUND) for each in outgoing):
        if TAGS[stream.tag].lane != "turn":
            send(stream, held)

    return held


def finish(
    posted: list[tuple[Stream, Handle, Buffer]],
    held: list[tuple[Handle, Buffer]],
    turn: int,
) -> None:
    """Wait for all requests."""

    awaited[:] = [stream for stream, _, _ in posted]
    statuses = complete([request for _, request, _ in posted], turn)

    awaited.clear()
    for (stream, _, buffer), status in zip(posted, statuses, strict=True):
        take(stream, buffer, status)

    complete([request for request, _ in held], turn + 1)
    for request in (
        *(request for _, request, _ in posted),
        *(request for request, _ in held),
    ):
        if request != MPI.REQUEST_NULL:
            request.Free()  # a persistent request


def take_turns(outgoing: list[list[Stream]], incoming: list[list[Stream]]) -> None:
    """Run the lane ``turn``: all ranks have one order of messages, so none waits in a circle."""
    turns = [
        (i, s.source, s.dest, s)
        for each in (*outgoing, *incoming)
        for i, s in enumerate(each)
    ]
    for _, first, _, stream in sorted(
        each for each in turns if TAGS[each[3].tag].lane == "turn"
    ):
        send(stream, []) if first == me else receive(stream)


def one_round(turn: int) -> None:
    """Exchange all messages of all pairs, from and to this rank."""

    others = [rank for rank in range(size) if rank != me]
    outgoing = [source.plan(turn, me, other) for other in others]
    incoming = [source.plan(turn, other, me) for other in others]
    coming = [stream for each in incoming for stream in each]
    planned.update(coming)
    posted = post_all(coming)
    all_come(turn)
    held = start_all(outgoing)
    take_turns(outgoing, incoming)

    left = Counter(stream.tag for stream in coming if TAGS[stream.tag].lane == "any")
    for i in range(left.total()):
        receive_any(left, turn << 12 | i)

    finish(posted, held, turn)


# -- the whole


def messages(turn: int) -> int:
    """Return the number of messages of all ranks in ``turn`` rounds."""
    return int(turn * size * (size - 1) * ROUND)


def account(streams: Iterable[Stream]) -> None:
    """Return the checks, worst first; all messages of these streams should have come."""

    ledger.close((stream, planned[stream]) for stream in streams)
    for kind, sentences in ledger.sentences.items():
        report.check(f"messages {kind}", (ledger.counts[kind], sentences[:3]), (0, []))

    for kind, sentences in wrong.items():
        report.check(kind, (len(sentences), sentences[:3]), (0, []))

    report.check("messages", ledger.messages, planned.total())
    report.check(
        "memory",
        flat(pace.memory, params["memory"]) if len(pace.memory) > 2 else "",
        "",
    )


def figures() -> dict[str, object]:
    """Return the figures of the run."""
    counts = {
        "messages": ledger.messages,
        "octets": ledger.octets,
        "rounds": done,
        "seed": SEED,
    }
    return {
        **counts,
        "seconds": pace.seconds,
        "memory": pace.memory,
        "calls": dict(modes),
    }


def tell_silence() -> None:
    """Report that nothing has come for long: the messages that this rank awaits are lost."""
    account(list(awaited))
    report.leave(**figures())


done, pace = 0, Pace(MPI, params)
stage("case")
finished = pace.watch(tell_silence)
MPI.Attach_buffer(
    bytearray(3 * ROUND * max(1, size - 1) * (BUFFERED + MPI.BSEND_OVERHEAD))
)
try:
    while not pace.is_over(done, messages(done)):
        one_round(done)
        aside(done)
        if done % MORE_EACH == 0:
            more(done)
        done += 1
        pace.read_memory(messages(done))
    pace.read_last_memory()
except Exception as error:
    # Such as the error of a message that is longer than the one that is due
    wrong["raised"].append(f"in round {done}: {error!r}"[:200])
    account(())
    report.leave(**figures())
    raise
finished.set()
MPI.Detach_buffer()
account(planned)
for comm in comms.values():
    if comm != world:
        comm.Free()
types.free()
report.done(**figures())
