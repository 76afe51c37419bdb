"""A recorded conversation as a fake peer: its octets come over real connections, and are judged.

The recording has the streams of a whole job (``client0_to_server.bin``, ``host1_to_host0.bin``
...). Each side of each connection sends what it sent then, piece by piece in an order in which it
can have been sent (:func:`impi.lab.dissect.observe_streams`). What arrives is judged by the tests
that look at all packets of a job; other tests need a peer that answers, and are not tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import LabError, UsageError, unread
from impi.lab.conform.job.deviations import habits
from impi.lab.conform.job.encoding import HEADER_SIZE
from impi.lab.conform.job.wiring import RecordedWire, Wiring
from impi.lab.conform.outcomes import ClauseVerdict, Outcome, outcome_of
from impi.lab.conform.script.script_files import Test
from impi.lab.dissect import (
    Dissection,
    ObservedJob,
    StreamName,
    breaches,
    name_stream,
    observe_streams,
)

_PATIENCE_S: Final = 10.0


def read_streams(folder: Path) -> dict[StreamName, bytes]:
    """Return the streams of a recording.

    Raises:
        UsageError: the folder has none.
    """

    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".bin")
        named = {
            name_stream(path.name, path.read_bytes()): path.read_bytes()
            for path in files
        }
    except OSError as error:
        raise unread(folder, error) from error

    streams = {name: octets for name, octets in named.items() if name is not None}
    if not any(name.kind == "startup" for name in streams):
        raise UsageError(
            f"{folder} has no recorded conversation; its streams are named client0_to_server.bin ..."
        )

    return streams


def replay(folder: Path) -> ObservedJob:
    """Play a recording over loopback; return what arrived.

    Raises:
        UsageError: the folder has no recording.
        LabError: octets were lost on the way.
    """

    streams = read_streams(folder)

    wiring = Wiring()
    try:
        arrived = _play(wiring, streams, _pieces(streams))
    finally:
        wiring.close()

    if arrived != streams:
        raise LabError(f"{folder} did not arrive as it was sent")

    return observe_streams(arrived)


def _pieces(streams: Mapping[StreamName, bytes]) -> list[tuple[StreamName, int]]:
    """Return streams, each with the octet up to which it is sent, in a possible order."""

    job = observe_streams(streams)

    found: list[tuple[float, StreamName, int]] = []
    for conversation in job.conversations:
        client = -1 if conversation.client is None else conversation.client
        for note in conversation.notes:
            found.append(
                (
                    note.time,
                    StreamName("startup", client, 0, note.by_client),
                    note.offset + note.size,
                )
            )

    for channel in job.channels:
        for packet in channel.packets:
            name = StreamName("channel", channel.opener, channel.accepter, packet.forth)
            found.append(
                (packet.time, name, packet.offset + HEADER_SIZE + len(packet.payload))
            )

    ordered = [(name, end) for _, name, end in sorted(found) if name in streams]

    return [*ordered, *((name, len(octets)) for name, octets in streams.items())]


def _play(
    wiring: Wiring,
    streams: Mapping[StreamName, bytes],
    pieces: Sequence[tuple[StreamName, int]],
) -> dict[StreamName, bytes]:
    accepted: list[RecordedWire] = []
    port = wiring.listen("127.0.0.1", accepted.append)

    ends: dict[tuple[str, int, int], tuple[RecordedWire, RecordedWire]] = {}
    for key in dict.fromkeys((name.kind, name.first, name.second) for name in streams):
        opener = wiring.connect("127.0.0.1", port)

        wiring.wait(lambda: len(accepted) > len(ends), _PATIENCE_S)
        if opener is None or len(accepted) == len(ends):
            raise LabError("no connection on loopback")

        ends[key] = (opener, accepted[-1])

    sent = dict.fromkeys(streams, 0)
    for name, end in pieces:
        opener, accepter = ends[name.kind, name.first, name.second]

        speaker, hearer = (opener, accepter) if name.forth else (accepter, opener)
        if end > sent[name]:
            speaker.send(streams[name][sent[name] : end])
            sent[name] = end
            wiring.wait(lambda hearer=hearer, end=end: hearer.heard >= end, _PATIENCE_S)  # type: ignore[misc]

    found = {}
    for name in streams:
        opener, accepter = ends[name.kind, name.first, name.second]
        found[name] = bytes((accepter if name.forth else opener).incoming)

    return found


def judge(folder: Path, tests: Sequence[Test]) -> list[Outcome]:
    """Replay a recording, and judge it by those tests that look at all packets of a job.

    Raises:
        UsageError: the folder has no recording.
    """

    job = replay(folder)
    seen = Dissection(
        conversations=job.conversations, channels=job.channels, layout=job.layout
    )
    found = [
        (breach.clause, breach.text, breach.client is None) for breach in breaches(seen)
    ]
    found += [
        (clause, text, False) for clause, text, _ in habits(job.channels, job.layout)
    ]

    outcomes = []
    for test in tests:
        if not test.passive:
            why = "a recording answers nothing"
            outcomes.append(outcome_of(test, ClauseVerdict.UNTESTED, 0.0, why))
            continue

        clause = (test.about or test.clause, test.server)
        against = [
            text for broken, text, by_server in found if (broken, by_server) == clause
        ]
        verdict = ClauseVerdict.BROKEN if against else ClauseVerdict.HOLDS
        why = f"{against[0]} ({len(against)} times)" if against else ""
        outcomes.append(outcome_of(test, verdict, 0.0, why))

    return outcomes
