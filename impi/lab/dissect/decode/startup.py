"""Decodes the start-up conversation between one client and the server (IMPI 2.3.2 to 2.3.7).

The authentication key is never kept: a note says only that one was sent. No note or problem has
octets that a client sends between AUTH and IMPI.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from impi.lab.dissect.decode.participants import Layout, WireHost, WireProc
from impi.lab.dissect.streams.problem import Problem
from impi.lab.dissect.streams.tcp import Connection, Stream

LABELS: Final = {
    0x1000: "C_VERSION",
    0x1100: "C_NHOSTS",
    0x1200: "C_NPROCS",
    0x1300: "C_DATALEN",
    0x1400: "C_TAGUB",
    0x1500: "C_COLL_XSIZE",
    0x1600: "C_COLL_MAXLINEAR",
    0x2000: "H_IPV6",
    0x2100: "H_PORT",
    0x2200: "H_NPROCS",
    0x2300: "H_ACKMARK",
    0x2400: "H_HIWATER",
    0x3000: "P_IPV6",
    0x3100: "P_PID",
}
_COMMANDS: Final = {
    int.from_bytes(word, "big"): word.decode()
    # Each command is the ASCII of its name, in network order (IMPI 2.3.2).
    for word in (b"AUTH", b"IMPI", b"COLL", b"DONE", b"FINI")
}
_NO_METHOD, _KEY_METHOD, _KEY_SIZE = 0, 1, 8
# A word and a length that no key is likely to have: the beginning of the IMPI message.
_AFTER_AUTH: Final = b"IMPI\0\0\0\4"
_SIGNED4: Final = ("C_TAGUB", "C_COLL_XSIZE", "C_COLL_MAXLINEAR")

Value = int | bytes


# impi's own command LOSS: a client, how many of its ranks (none: all), these, and a sentence.
_LOSS: Final = "0x4c4f5353"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One message of the conversation of a client and the server."""

    time: float
    by_client: bool
    # AUTH, METHOD (the server's choice), KEY, IMPI, COLL, DONE, FINI, 0x...
    kind: str
    # The length field; for a key, which has none, the number of octets that may be one
    length: int
    values: tuple[Value, ...] = ()
    label: int = 0
    # Contributing clients of the server's COLL messages: bit i stands for client i
    mask: int = 0
    offset: int = 0  # where it begins in its stream

    @property
    def size(self) -> int:
        # A key has no header of its own. All other messages have a command,
        # or a method, and a length.
        return self.length + (0 if self.kind == "KEY" else 8)

    @property
    def label_name(self) -> str:
        return LABELS.get(self.label, f"0x{self.label:04x}")

    def __str__(self) -> str:
        shown = ", ".join(
            v.hex() if isinstance(v, bytes) else str(v) for v in self.values
        )
        match self.kind:
            case "AUTH":
                return f"AUTH len={self.length} auth_mask=[{shown}]"
            case "METHOD":
                return f"AUTH method={shown} len={self.length}"
            case "KEY":
                return "AUTH key=(redacted)"
            case "IMPI":
                return f"IMPI len={self.length} {'rank' if self.by_client else 'size'}={shown}"
            case "COLL":
                mask = "" if self.by_client else f" client_mask=0x{self.mask:x}"
                return f"COLL len={self.length} {self.label_name}{mask} [{shown}]"

        return f"{self.kind} len={self.length}"


@dataclass(slots=True)
class Conversation:
    """All that one client and the server said to each other."""

    connection: Connection
    # In order of time; each direction in its own order
    notes: list[Note] = field(default_factory=list)
    # Breaches of the protocol, or results of capture holes if the connection has problems.
    problems: list[Problem] = field(default_factory=list)

    @property
    def client(self) -> int | None:
        # The client's own word counts (IMPI 2.3.4). Before that it is one
        # of the unnumbered.
        for note in self.notes:
            if (
                note.kind == "IMPI"
                and note.by_client
                and note.values
                and isinstance(note.values[0], int)
            ):
                return note.values[0]

        return None

    def said(self, kind: str, *, by_client: bool) -> bool:
        """Whether that side sent a message of that kind."""
        return any(n.kind == kind and n.by_client == by_client for n in self.notes)


def losses_told(conversation: Conversation) -> list[int]:
    """Return the clients of whose loss the server has told this one, whole or in part."""
    notes = [n for n in conversation.notes if n.kind == _LOSS and not n.by_client]
    payloads = [
        value for note in notes for value in note.values if isinstance(value, bytes)
    ]

    # The number of the lost client comes first in the message, as the
    # comment at _LOSS has it.
    return [int.from_bytes(payload[:4], "big", signed=True) for payload in payloads]


def decode_startup(connection: Connection) -> Conversation:
    """Decode a captured start-up connection. Never raises for peers' faults: see ``problems``."""

    conversation = Conversation(connection)
    # The server's side first: the method that it chose tells how many
    # octets of the client's are a key.
    server = list(_server_notes(connection.back, conversation.problems))
    method = next((n.values[0] for n in server if n.kind == "METHOD"), None)
    client = list(_client_notes(connection.forth, method, conversation.problems))
    conversation.notes = sorted(client + server, key=lambda n: n.time)

    return conversation


def _client_notes(
    stream: Stream, method: Value | None, problems: list[Problem]
) -> Iterator[Note]:
    data, at = stream.data, 0
    # Eight octets are a whole header. Fewer are reported by _messages.
    if len(data) >= 8:
        command, length = struct.unpack_from(">Ii", data)
        if _COMMANDS.get(command) != "AUTH":
            text = f"the client began with {data[:4]!r} instead of AUTH"
            problems.append(
                Problem.at(
                    text,
                    "2.3.3",
                    forth=True,
                    offset=0,
                    time=stream.time_at(0),
                    data=data[:4],
                )
            )
        # A mask may be of several words (IMPI 2.3.3), and its end is the
        # first place where a key can stand.
        elif 0 <= length <= len(data) - 8:
            words = struct.unpack_from(f">{length // 4}I", data, 8)
            yield Note(
                time=stream.time_at(7 + length),
                by_client=True,
                kind="AUTH",
                length=length,
                values=words,
            )
            at = 8 + length

            secret, at = _secret(stream, at, method, problems)
            if secret is not None:
                yield secret

    yield from _messages(stream, at, True, problems)


def _secret(
    stream: Stream, at: int, method: Value | None, problems: list[Problem]
) -> tuple[Note | None, int]:
    """Return the client's authentication octets, and the offset of its next command.

    Without the server's choice (None), anything before the command IMPI counts as a key.
    """

    data, start = stream.data, at

    # The server's choice was not captured. Then octets that do not begin
    # the command IMPI must be taken for a key, lest they be shown.
    guessed = method is None and not _AFTER_AUTH.startswith(
        data[at : at + len(_AFTER_AUTH)]
    )
    # The key of method 1 has eight octets and no header (IMPI 2.3.3).
    if method == _KEY_METHOD or guessed:
        at += _KEY_SIZE
    elif method not in (None, _NO_METHOD):
        # a foreign method: only the command behind it shows where its exchange ends
        found = data.find(_AFTER_AUTH, at)
        at = len(data) if found < 0 else found

    # A connection that ends within the key is cut, and no breach.
    if at > len(data):
        _withhold(
            stream,
            start,
            "the client's key ends after {} of 8 octets",
            "2.3.3",
            problems,
            cut=True,
        )
        return None, len(data)

    note = None
    # The octets of the key are counted here and then forgotten.
    if at > start:
        note = Note(
            time=stream.time_at(at - 1),
            by_client=True,
            kind="KEY",
            length=at - start,
            offset=start,
        )

    following = data[at : at + len(_AFTER_AUTH)]
    if following != _AFTER_AUTH[: len(following)]:
        # IMPI 2.3.4: the client's rank comes next. A key sent unasked must not look like a command.
        text = (
            "{} octets (not shown) from the client where its command IMPI should begin"
        )
        _withhold(stream, at, text, "2.3.4", problems)
        found = data.find(_AFTER_AUTH, at)
        at = len(data) if found < 0 else found

    return note, at


def _withhold(
    stream: Stream,
    at: int,
    text: str,
    clause: str,
    problems: list[Problem],
    *,
    cut: bool = False,
) -> None:
    """Report octets that may be a key: their number, never their values."""
    # Everything up to the command IMPI may belong to the secret.
    found = stream.data.find(_AFTER_AUTH, at)
    count = (len(stream.data) if found < 0 else found) - at
    problems.append(
        Problem.at(
            text.format(count),
            clause,
            forth=True,
            offset=at,
            time=stream.time_at(at),
            cut=cut,
        )
    )


def _server_notes(stream: Stream, problems: list[Problem]) -> Iterator[Note]:
    # IMPI 2.3.3: the server's answer has no command word, only the method and a length.
    data, at = stream.data, 0
    if len(data) >= 8:
        which, length = struct.unpack_from(">ii", data)
        if 0 <= length <= len(data) - 8:
            yield Note(
                time=stream.time_at(7),
                by_client=False,
                kind="METHOD",
                length=length,
                values=(which,),
            )
            at = 8 + length

    yield from _messages(stream, at, False, problems)


def _messages(
    stream: Stream, at: int, by_client: bool, problems: list[Problem]
) -> Iterator[Note]:
    data, who, text, cut = stream.data, "client" if by_client else "server", "", False
    while at + 8 <= len(data) and not text:
        # Unknown commands are skipped by their length (IMPI 2.3.2), so only
        # a length can be wrong.
        command, length = struct.unpack_from(">Ii", data, at)

        end = at + 8 + length
        if length < 0 or end > len(data):
            text = f"the {who} ended in the middle of a message of {length} octets at octet {at}"
            cut = length >= 0 and command in _COMMANDS
        else:
            # A message counts from its last octet on: only then can the other
            # side know it.
            yield _note(
                command, data[at + 8 : end], stream.time_at(end - 1), by_client, at
            )
            at = end

    if at < len(data):
        text = (
            text
            or f"the {who} left {len(data) - at} octets that are not a message, at octet {at}"
        )
        # a key may stand behind an AUTH that cannot be read
        shown = data[:8] if by_client and at == 0 else data
        time, cut = stream.time_at(at), cut or len(data) - at < 8
        problems.append(
            Problem.at(
                text,
                "2.3.2",
                forth=by_client,
                offset=at,
                time=time,
                data=shown,
                cut=cut,
            )
        )


def _note(command: int, payload: bytes, time: float, by_client: bool, at: int) -> Note:
    kind, length = _COMMANDS.get(command, f"0x{command:08x}"), len(payload)
    values: tuple[Value, ...] = (payload,) if payload else ()

    # Commands without a known payload keep their octets as one value.
    label = mask = 0
    if kind == "IMPI" and length >= 4:
        values = struct.unpack_from(">i", payload)
    # The server's label has the mask of contributors in front of the data (IMPI 2.3.5).
    elif kind == "COLL" and length >= (4 if by_client else 8):
        label = int.from_bytes(payload[:4], "big")
        mask = 0 if by_client else int.from_bytes(payload[4:8], "big")
        values = _elements(LABELS.get(label, ""), payload[4 if by_client else 8 :])
    elif kind == "AUTH":
        values = struct.unpack_from(f">{length // 4}I", payload)

    return Note(
        time=time,
        by_client=by_client,
        kind=kind,
        length=length,
        values=values,
        label=label,
        mask=mask,
        offset=at,
    )


def _elements(name: str, data: bytes) -> tuple[Value, ...]:
    """Return the elements of a label's data (IMPI 2.3.5), or the octets if they do not fit."""

    # The size of an element follows from its label alone: no message says it.
    if name in ("H_IPV6", "P_IPV6") and len(data) % 16 == 0:
        return tuple(data[i : i + 16] for i in range(0, len(data), 16))

    if name == "P_PID" and len(data) % 8 == 0:
        return struct.unpack(f">{len(data) // 8}q", data)

    # Signed are those that may be -1 or that IMPI declares as Int4.
    # Versions are pairs of words.
    if name and name not in ("H_IPV6", "P_IPV6", "P_PID") and len(data) % 4 == 0:
        return struct.unpack(
            f">{len(data) // 4}{'i' if name in _SIGNED4 else 'I'}", data
        )

    return (data,) if data else ()


def misordered(conversation: Conversation) -> Iterator[tuple[Note, str]]:
    """Yield labels of the client that do not ascend (IMPI 2.3.5), with a sentence each."""
    last = 0
    for note in conversation.notes:
        # A hole makes labels look out of order, so such a connection says nothing.
        if (
            note.by_client
            and note.kind == "COLL"
            and not conversation.connection.problems
        ):
            if note.label <= last:
                yield (
                    note,
                    f"label {note.label_name} after label {LABELS.get(last, hex(last))}, which is not lower",
                )

            last = note.label


def learn_layout(conversations: list[Conversation]) -> Layout | None:
    """Return the job as told to the first client that heard all labels; None: no client did."""
    # Any client that heard everything will do: all of them hear the same broadcasts.
    for conversation in conversations:
        heard = {
            n.label_name: n
            for n in conversation.notes
            if n.kind == "COLL" and not n.by_client
        }
        # The other labels are numbers of the job. Without these seven no
        # rank can be placed.
        if all(
            name in heard
            for name in (
                "C_NHOSTS",
                "C_NPROCS",
                "H_IPV6",
                "H_PORT",
                "H_NPROCS",
                "P_IPV6",
                "P_PID",
            )
        ):
            layout = _layout(
                {name: note.values for name, note in heard.items()},
                heard["C_NHOSTS"].mask,
            )
            if layout is not None:
                return layout

    return None


def _layout(values: dict[str, tuple[Value, ...]], mask: int) -> Layout | None:
    # Clients ascend, in each its hosts, in each its procs (2.3.5); silent clients leave no gap.
    numbers = {
        name: tuple(v for v in vs if isinstance(v, int)) for name, vs in values.items()
    }
    addresses = {
        name: tuple(v for v in values[name] if isinstance(v, bytes))
        for name in ("H_IPV6", "P_IPV6")
    }
    # The mask tells who contributed: 32 bits, hence at most 32 clients.
    clients = [i for i in range(32) if mask >> i & 1]
    hosts: list[WireHost] = []

    procs: list[WireProc] = []
    try:
        for client, nhosts in zip(clients, numbers["C_NHOSTS"], strict=True):
            # H labels count over all hosts, P labels over all procs, in one
            # ascending order.
            for _ in range(nhosts):
                index = len(hosts)
                port, nprocs = numbers["H_PORT"][index], numbers["H_NPROCS"][index]

                hosts.append(
                    WireHost(index, client, addresses["H_IPV6"][index], port, nprocs)
                )
                for _ in range(nprocs):
                    rank = len(procs)
                    procs.append(
                        WireProc(
                            rank,
                            client,
                            index,
                            addresses["P_IPV6"][rank],
                            numbers["P_PID"][rank],
                        )
                    )
    except (IndexError, ValueError):
        return None  # the labels contradict each other

    return Layout(len(clients), tuple(hosts), tuple(procs), numbers)
