"""Octet streams saved without a capture: their owners, and a possible order of sending.

Such streams have no clock, but an answer follows its question, and an acknowledgement its packet
(IMPI 2.3, 3.6, 3.7). :func:`observe_streams` sorts accordingly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from impi.lab.dissect.decode.host_channel import decode_channel
from impi.lab.dissect.decode.ledger import in_order
from impi.lab.dissect.decode.startup import (
    Conversation,
    Note,
    decode_startup,
    learn_layout,
)
from impi.lab.dissect.jobs.job_finder import ObservedJob, seems_channel
from impi.lab.dissect.streams.tcp import Connection, Stream

_NOWHERE: Final = (b"", 0)
_PATTERNS: Final = (
    re.compile(
        r"(?P<src>client|host)(?P<s>\d{1,9})_to_(?P<dest>server|host)(?P<d>\d{1,9})?\.bin"
    ),
    re.compile(r"(?P<src>server)(?P<s>)_to_(?P<dest>client)(?P<d>\d{1,9})\.bin"),
)
_COMMANDS: Final = (b"IMPI", b"COLL", b"DONE", b"FINI")
_FIRST, _CHANNELS, _LAST = 0, 8, 9
_PHASES: Final = {
    "AUTH": 0,
    "METHOD": 1,
    "KEY": 2,
    "IMPI": 3,
    "COLL": 5,
    "DONE": 6,
    "FINI": _LAST,
}

_Step = tuple[int, int, int]  # phase of the job, label, and whether the server speaks


@dataclass(frozen=True, slots=True, order=True)
class StreamName:
    """The connection and the direction of a stream; host -1: not known."""

    kind: str  # ``"startup"`` or ``"channel"``
    first: int  # the client, or the host that connected
    second: int  # the host that accepted; 0 for start-up
    forth: bool  # whether it comes from the side that connected


def name_stream(name: str, octets: bytes) -> StreamName | None:
    """Identify a stream by file name, such as ``host1_to_host0.bin``, or by its octets."""

    for pattern in _PATTERNS:
        match = pattern.fullmatch(name)
        if match is not None:
            return _named(match)

    if octets[:4] == b"AUTH":
        return StreamName("startup", -1, 0, True)

    # The server begins with a method below 256 and a length, and the
    # next word is a command.
    if octets[:3] == bytes(3) and octets[8:12] in _COMMANDS:
        return StreamName("startup", -1, 0, False)

    if seems_channel(octets, b""):
        return StreamName("channel", int.from_bytes(octets[:4], "big"), -1, True)

    # The stream of an accepter begins with packets at once. A rank
    # before it is put in for the test.
    if seems_channel(b"\0\0\0\1", octets):
        return StreamName("channel", -1, -1, False)

    return None


def _named(match: re.Match[str]) -> StreamName | None:
    src, dest = match["src"], match["dest"]
    if (
        (src, dest) == ("host", "host")
        and match["d"] is not None
        and match["s"] != match["d"]
    ):
        one, other = int(match["s"]), int(match["d"])
        # IMPI 2.3.8
        return StreamName("channel", max(one, other), min(one, other), one > other)

    if (src, dest) == ("client", "server") and match["d"] is None:
        return StreamName("startup", int(match["s"]), 0, True)

    if (src, dest) == ("server", "client"):
        return StreamName("startup", int(match["d"]), 0, False)

    return None


def observe_streams(streams: Mapping[StreamName, bytes]) -> ObservedJob:
    """Return the job to whose connections these streams belong."""

    ends: dict[tuple[str, int, int], Connection] = {}

    given: set[tuple[str, int, int, bool]] = set()
    # Sorted by name, so that the order of files on a command line does not matter.
    for name, octets in sorted(streams.items()):
        key = (name.kind, name.first, name.second)
        connection = ends.setdefault(key, Connection(_NOWHERE, _NOWHERE, 0.0))
        stream = connection.forth if name.forth else connection.back
        stream.data = octets
        given.add((*key, name.forth))

    for key, connection in ends.items():
        for forth, stream in ((True, connection.forth), (False, connection.back)):
            if (*key, forth) not in given:
                stream.problems.append("this direction was not given")

    # Twice: the first pass has no clock, so the order found in it
    # becomes the clock of the second.
    job = _decode(ends)
    _set_clock(job)
    job = _decode(ends)
    job.clocked = False

    return job


def _decode(ends: Mapping[tuple[str, int, int], Connection]) -> ObservedJob:
    conversations = [
        decode_startup(c) for (kind, _, _), c in ends.items() if kind == "startup"
    ]
    channels = [
        decode_channel(c, second)
        for (kind, _, second), c in ends.items()
        if kind == "channel"
    ]
    return ObservedJob(learn_layout(conversations), conversations, channels)


def _set_clock(job: ObservedJob) -> None:
    """Number all notes and packets in a possible order; the numbers become their times."""

    steps: list[tuple[_Step, int, Stream, int]] = []
    for number, conversation in enumerate(job.conversations):
        for by_client in (True, False):
            for step, stream, offset in _startup_steps(conversation, by_client):
                steps.append((step, number, stream, offset))

    for number, channel in enumerate(job.channels):
        steps.append(((_CHANNELS, 0, 0), number, channel.connection.forth, 0))
        for position, packet in enumerate(
            in_order(channel.packets, job.layout), start=1
        ):
            stream = (
                channel.connection.forth if packet.forth else channel.connection.back
            )
            steps.append(((_CHANNELS, position, 0), number, stream, packet.offset))

    # Steps of different connections interleave by the phase of the job
    # that they belong to.
    for time, (_, _, stream, offset) in enumerate(sorted(steps, key=lambda s: s[:2])):
        stream.marks.append((offset, float(time)))

    for connection in [c.connection for c in job.conversations] + [
        c.connection for c in job.channels
    ]:
        marks = [*connection.forth.marks, *connection.back.marks]
        connection.opened = min((time for _, time in marks), default=0.0)


def _startup_steps(
    conversation: Conversation, by_client: bool
) -> Iterable[tuple[_Step, Stream, int]]:
    connection = conversation.connection
    stream = connection.forth if by_client else connection.back

    step = (_FIRST, 0, 0)
    for note in conversation.notes:
        if note.by_client == by_client:
            # Never before an earlier message in the same direction
            step = max(step, _step(note))
            yield step, stream, note.offset


def _step(note: Note) -> _Step:
    server_too = 0 if note.by_client else 1
    # Sizes wait for all ranks (IMPI 2.3.4), labels for all clients (2.3.5), DONE for all DONEs.
    return (_PHASES.get(note.kind, _FIRST), note.label, server_too)
