"""``impi decode``: show captures and saved streams of IMPI jobs as text or JSON."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import impi.lab.dissect
from impi.base.errors import LabError, UsageError, unread
from impi.cli.ending import Verbs, add_verb
from impi.lab.dissect.jobs.capture import merge_views
from impi.lab.dissect.jobs.job_finder import ObservedJob, observe
from impi.lab.dissect.jobs.raw import StreamName, name_stream, observe_streams
from impi.lab.dissect.show.record_list import Record, records, wrong
from impi.lab.dissect.show.selection import Condition, parse_conditions, satisfies
from impi.lab.dissect.show.summary import summarize
from impi.lab.dissect.show.text import as_line, as_object
from impi.lab.dissect.streams.pcap import Segment, read_pcap
from impi.lab.dissect.streams.pcapng import MAGIC, split_pcapng
from impi.lab.dissect.streams.tcp import Connection, reassemble

LUA: Final = Path(impi.lab.dissect.__file__).with_name("impi.lua")

_PCAP: Final = (
    b"\xa1\xb2\xc3\xd4",
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x4d\x3c\xb2\xa1",
)
_CAPTURES: Final = (".pcap", ".pcapng", ".cap")
_STREAM_FILE: Final = re.compile(
    r"(client\d+_to_server|server_to_client\d+|host\d+_to_host\d+)\.bin"
)

_HELP: Final = """\
A FILE is a capture (pcap or pcapng) with any number of connections and jobs, or one octet stream. A folder stands for
its captures and streams (client0_to_server.bin, server_to_client0.bin, host1_to_host0.bin, ...), and - for standard
input. Streams have no clock, so their records are numbered in one possible order of sending.

examples:
  impi decode job.pcap
  impi decode --only 'type=DATA|DATASYNC,tag=7' --data job.pcap
  tcpdump -w - -i any tcp | impi decode --json -
  tshark -o tcp.try_heuristic_first:TRUE -X lua_script:"$(impi decode --lua)" -r job.pcap -Y impi

The exit code is 0 if all is well, 1 if octets are wrong or missing, 4 for a wrong command line. Wrong and missing
octets are shown as ERROR and GAP, even if --only excludes them. Authentication keys are never shown."""


@dataclass(slots=True)
class _Input:
    captures: list[list[Connection]] = field(default_factory=list)
    # By folder: the streams in one folder belong to one job.
    streams: dict[str, dict[StreamName, bytes]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)


def add_decode(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impi``."""
    add_verb(
        verbs,
        "decode",
        decode,
        {
            "files": {
                "nargs": "*",
                "metavar": "FILE",
                "help": "captures, streams, folders of them, or -",
            },
            "--data": {
                "action": "store_true",
                "help": "show all user data, not only its first 16 octets",
            },
            "--json": {"action": "store_true", "help": "one JSON object a line"},
            "--only": {
                "metavar": "LIST",
                "default": [],
                "type": _conditions,
                "help": "show only records with these values",
            },
            "--summary": {
                "action": "store_true",
                "help": "print counts by type and pair instead of the records",
            },
            "--lua": {
                "action": "store_true",
                "help": "print the path of the Wireshark dissector",
            },
        },
        help="print the messages in captures and saved streams",
        description="Print the messages in captures and saved streams of IMPI jobs, merged by time.",
        epilog=_HELP,
        allow_abbrev=False,
    )


def _conditions(text: str) -> list[Condition]:
    try:
        return parse_conditions(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def decode(options: argparse.Namespace) -> int:
    """Run the verb; return the exit code.

    Raises:
        UsageError: there is no input, or a file is unreadable or neither a capture nor a stream.
    """

    if options.lua:
        print(LUA)
        return 0

    if not options.files:
        raise UsageError(
            "nothing to decode; name captures, streams or folders, or - for standard input"
        )

    given = _Input()
    for name, octets in _read(options.files):
        _sort_in(given, name, octets)

    # The nodes at both ends may have captured one connection, and it is shown once.
    seen = observe(merge_views(given.captures))
    jobs = [
        *seen.jobs,
        *(observe_streams(streams) for streams in given.streams.values()),
    ]

    every = records(jobs)
    if options.summary:
        _print_summary(jobs, every, seen.others, options)
    else:
        _print_records(jobs, every, options)

    # Complaints follow the records also where both streams go to one file.
    sys.stdout.flush()
    if not jobs:
        given.complaints.append(f"no IMPI among {seen.others} connections")

    for complaint in given.complaints:
        print(f"impi: {complaint}", file=sys.stderr)

    return 1 if given.complaints or any(map(wrong, every)) else 0


def _read(names: Sequence[str]) -> Iterator[tuple[Path, bytes]]:
    for name in names:
        if name == "-":
            yield Path("-"), sys.stdin.buffer.read()
            continue

        path = Path(name)
        try:
            for file in (
                sorted(filter(_decodable, path.iterdir())) if path.is_dir() else [path]
            ):
                yield file, file.read_bytes()
        except OSError as error:
            raise unread(error.filename, error) from error

        if path.is_dir() and not any(map(_decodable, path.iterdir())):
            raise UsageError(
                f"the folder {path} has no captures and no streams; these are named host1_to_host0.bin"
            )


def _decodable(path: Path) -> bool:
    return path.is_file() and (
        path.suffix in _CAPTURES or _STREAM_FILE.fullmatch(path.name) is not None
    )


def _sort_in(given: _Input, path: Path, octets: bytes) -> None:
    # By the content and not by the name, which standard input lacks.
    if octets[:4] in _PCAP:
        given.captures.append(_connections(given, path, [octets]))
    elif octets[:4] == MAGIC:
        parts, error = split_pcapng(octets)
        if error is not None:
            given.complaints.append(f"{path}: {error}")

        given.captures.append(_connections(given, path, parts))
    else:
        stream = name_stream(path.name, octets)
        if stream is None:
            raise UsageError(
                f"{path} is neither a capture (pcap, pcapng) nor a stream of IMPI",
                octets=octets[:16],
            )

        folder = given.streams.setdefault(str(path.parent), {})
        if stream in folder:
            raise UsageError(
                f"{path} is the second stream of its kind; name such files host1_to_host0.bin and so on"
            )

        folder[stream] = octets


def _connections(given: _Input, path: Path, parts: Iterable[bytes]) -> list[Connection]:
    """Return the connections in one capture; damage is reported, and packets before it are used."""

    segments: list[Segment] = []

    parts = list(parts)
    for part in parts:
        try:
            for item in read_pcap(part):
                if isinstance(item, Segment):
                    segments.append(item)
        except LabError as error:
            given.complaints.append(f"{path}: {error}")

    # Each interface of a pcapng file is in order by itself. Segments of
    # one connection may be in several.
    if len(parts) > 1:
        segments.sort(key=lambda s: s.time)

    return reassemble(segments)


def _print_records(
    jobs: Sequence[ObservedJob], every: Sequence[Record], options: argparse.Namespace
) -> None:
    start = min((r.time for r in every if jobs[r.job].clocked), default=0.0)
    for record in every:
        # Problems are shown with any selection, so that none can hide them.
        if (
            options.only
            and not wrong(record)
            and not satisfies(as_object(record, whole=True), options.only)
        ):
            continue

        if options.json:
            print(json.dumps(as_object(record, whole=options.data)))
        else:
            clocked = jobs[record.job].clocked
            print(
                as_line(
                    record,
                    start=start,
                    clocked=clocked,
                    several=len(jobs) > 1,
                    whole=options.data,
                )
            )


def _print_summary(
    jobs: Sequence[ObservedJob],
    every: Sequence[Record],
    others: int,
    options: argparse.Namespace,
) -> None:
    for number, job in enumerate(jobs):
        summary = summarize(number, job, every)
        print(
            json.dumps(summary.as_object())
            if options.json
            else "\n".join(summary.as_lines())
        )

    if others and not options.json:
        print(f"{others} connections are not IMPI")
