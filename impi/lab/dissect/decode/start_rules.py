"""Rules of start-up over several messages, and who broke one (IMPI 2.3.2 to 2.3.7, 3.9).

Only conversations without holes count, and all of them together: the server's words to one client
follow from the words of all clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from impi.lab.dissect.decode.startup import (
    LABELS,
    Conversation,
    Note,
    Value,
    misordered,
)

UNNUMBERED: Final = -1
"""Stands for the number of a client that has not said its number."""
_LEAST: Final = {
    "C_NHOSTS": 1,
    "C_NPROCS": 1,
    "C_DATALEN": 1,
    "C_TAGUB": 32767,
    "H_ACKMARK": 1,
    "H_HIWATER": 1,
}
# impi's PROV, which follows its method 31, and FAIL: other clients discard both (IMPI 2.3.2).
_OF_IMPI: Final = ("0x50524f56", "0x4641494c")
# A sentence, its clause, and the message that it is about
_Told: TypeAlias = tuple[str, str, Note]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFault:
    """One broken rule."""

    text: str
    clause: str
    time: float
    client: int | None  # the client that broke it; None: the server


def start_faults(conversations: Sequence[Conversation]) -> Iterator[StartFault]:
    """Yield all broken rules, but none of connections that were not captured whole."""

    # The server's words to one client follow from those of all. A
    # single hole would accuse it of labels that it never got.
    whole = [c for c in conversations if not c.connection.problems and c.notes]
    if len(whole) < len([c for c in conversations if c.notes]):
        return

    taken: dict[int, Conversation] = {}
    # By the first message: of two clients with one number, the later one is the second.
    for conversation in sorted(whole, key=lambda c: c.notes[0].time):
        yield from _of_client(conversation)
        yield from _of_server(conversation, whole)

        client = conversation.client
        # The first conversation of a number stays in the table, so a later
        # one is seen to differ.
        if (
            client is not None
            and taken.setdefault(client, conversation) is not conversation
        ):
            yield StartFault(
                text=f"a second client says that it is client {client}",
                clause="2.2.2",
                time=conversation.notes[-1].time,
                client=UNNUMBERED,
            )


def _number(conversation: Conversation) -> int:
    return UNNUMBERED if conversation.client is None else conversation.client


def _said(conversation: Conversation, kind: str, *, by_client: bool) -> list[Note]:
    return [
        n for n in conversation.notes if n.kind == kind and n.by_client == by_client
    ]


def _of_client(conversation: Conversation) -> Iterator[StartFault]:
    client, who = _number(conversation), f"client {conversation.client}"
    for note, text in misordered(conversation):
        yield StartFault(
            text=f"{who}: {text}", clause="2.3.5", time=note.time, client=client
        )

    # A label that comes twice is told by the order of labels; here the last one counts.
    told = {n.label_name: n for n in _said(conversation, "COLL", by_client=True)}
    for note in told.values():
        for text, clause in _wrong_values(note, told):
            yield StartFault(
                text=f"{who}: {text}", clause=clause, time=note.time, client=client
            )

    for time, text in _lacking(told, _said(conversation, "DONE", by_client=True)):
        yield StartFault(text=f"{who} {text}", clause="2.3.5", time=time, client=client)


def _lacking(
    told: dict[str, Note], done: Sequence[Note]
) -> Iterator[tuple[float, str]]:
    """Yield labels that a client can give no more: labels ascend, and DONE ends them."""

    # Labels ascend (IMPI 2.3.5). Whoever gives a higher one can never
    # give a lower one again.
    last = max(told.values(), key=lambda note: note.label, default=None)

    lacking = {label: name for label, name in LABELS.items() if name not in told}
    if last is None or not lacking:
        return

    skipped = [name for label, name in lacking.items() if label < last.label]
    # DONE says that there are no more. Without it only the labels in
    # between are lost for good.
    if done:
        yield done[0].time, f"has no {', '.join(lacking.values())}"
    elif skipped:
        yield last.time, f"gives {last.label_name} and has skipped {', '.join(skipped)}"


def _wrong_values(note: Note, told: dict[str, Note]) -> Iterator[tuple[str, str]]:
    """Yield faults in one label of a client, given its other labels."""

    name, values = note.label_name, note.values
    numbers = _numbers(values)

    least = _LEAST.get(name)
    if least is not None and numbers and min(numbers) < least:
        yield (
            f"{name} is {min(numbers)}, less than {least}",
            "3.9" if name == "C_TAGUB" else "2.3.5",
        )

    # A list of pairs that begins with 0.0, which every client must
    # support (IMPI 2.3.5).
    if name == "C_VERSION":
        versions = list(zip(numbers[::2], numbers[1::2], strict=False))
        if versions[:1] != [(0, 0)] or versions != sorted(set(versions)):
            yield f"the versions {versions} do not ascend from 0.0", "2.3.5"
    elif name in LABELS.values():
        # C labels have one element from each client, H labels one for each
        # host, P labels one for each proc.
        wanted = {"C": 1, "H": _one(told, "C_NHOSTS"), "P": _one(told, "C_NPROCS")}[
            name[0]
        ]
        if wanted is not None and len(values) != wanted:
            yield f"{name} has {len(values)} values, not {wanted}", "2.3.5"

    # The procs of the hosts together are those of the client.
    if name == "H_NPROCS" and sum(numbers) != _one(told, "C_NPROCS"):
        yield (
            f"H_NPROCS has {sum(numbers)} procs together, C_NPROCS {_one(told, 'C_NPROCS')}",
            "2.3.5",
        )

    yield from _wrong_marks(told) if name == "H_HIWATER" else ()


def _wrong_marks(told: dict[str, Note]) -> Iterator[tuple[str, str]]:
    """Yield faults in marks: 1 <= ackmark <= hiwater (IMPI 3.9)."""
    ackmarks = _numbers(told["H_ACKMARK"].values) if "H_ACKMARK" in told else []
    for ackmark, hiwater in zip(
        ackmarks, _numbers(told["H_HIWATER"].values), strict=False
    ):
        if ackmark > hiwater:
            yield f"ackmark {ackmark} is greater than hiwater {hiwater}", "3.9"


def _numbers(values: Sequence[Value]) -> list[int]:
    return [value for value in values if isinstance(value, int)]


def _one(told: dict[str, Note], name: str) -> int | None:
    values = told[name].values if name in told else ()
    return values[0] if len(values) == 1 and isinstance(values[0], int) else None


def _of_server(
    conversation: Conversation, everybody: Sequence[Conversation]
) -> Iterator[StartFault]:
    said = [n for n in conversation.notes if not n.by_client]
    for text, clause, note in (
        *_order(conversation, said),
        *_answers(said, len({c.client for c in everybody} - {None})),
        *_broadcasts(said, _submitted(everybody)),
        *_owed(said, everybody),
    ):
        told = f"the server to client {conversation.client}: {text}"
        yield StartFault(text=told, clause=clause, time=note.time, client=None)


def _order(conversation: Conversation, said: Sequence[Note]) -> Iterator[_Told]:
    """Yield faults in the order: the method is an offered one, and IMPI comes next (IMPI 2.3.3)."""
    # The words of the mask, 32 methods each. A server may choose any bit that is set.
    words = [
        word
        for n in _said(conversation, "AUTH", by_client=True)
        for word in _numbers(n.values)
    ]
    # The method is the first message of a server, and IMPI the next
    # one. Behind that labels may come in any number.
    for note in said[:1]:
        method = _numbers(note.values)[:1]
        if (
            note.kind == "METHOD"
            and words
            and not any(_bit(words, each) for each in method)
        ):
            yield f"chooses method {method[0]}, which was not offered", "2.3.3", note

    for note in said[1:2]:
        if note.kind != "IMPI" and note.kind not in _OF_IMPI:
            yield f"sends {note.kind} where only IMPI can come", "2.3.3", note


def _answers(said: Sequence[Note], nclients: int) -> Iterator[_Told]:
    """Yield faults of the server: number of clients, DONE once, no FINI."""
    done = 0
    for note in said:
        done += note.kind == "DONE"
        # The size is the number of clients that joined, and the same for all.
        if note.kind == "IMPI" and note.values != (nclients,):
            yield f"announces {note.values} clients", "2.3.4", note
        elif note.kind == "DONE" and done == 2:
            yield "sends DONE again", "2.3.6", note
        elif note.kind == "FINI":
            yield "sends FINI, which has no answer", "2.3.7", note


def _bit(words: Sequence[int], method: int) -> bool:
    return 0 <= method < 32 * len(words) and bool(
        words[method // 32] >> method % 32 & 1
    )


def _submitted(
    everybody: Sequence[Conversation],
) -> dict[int, dict[int, tuple[Value, ...]]]:
    """Return the labels that clients gave, by label and client."""
    found: dict[int, dict[int, tuple[Value, ...]]] = {}
    for conversation in everybody:
        for note in _said(conversation, "COLL", by_client=True):
            found.setdefault(note.label, {})[_number(conversation)] = note.values

    return found


def _broadcasts(
    said: Sequence[Note], submitted: dict[int, dict[int, tuple[Value, ...]]]
) -> Iterator[_Told]:
    """Yield broadcasts that differ from what clients gave: in their order, with its mask."""
    heard: set[int] = set()
    for note in said:
        if note.kind != "COLL":
            continue

        given = submitted.get(note.label, {})
        # Bit i stands for client i. A client without a number has no bit.
        mask = sum(1 << client for client in given if client >= 0)

        # Concatenated in the order of client numbers, not in that of their arrival.
        values = [value for _, each in sorted(given.items()) for value in each]
        if note.mask != mask:
            yield (
                f"client_mask of {note.label_name} is {note.mask:#x}, not {mask:#x}",
                "2.3.5",
                note,
            )
        # The octets of unknown labels cannot be compared by element.
        elif note.label_name in LABELS.values() and list(note.values) != values:
            yield (
                f"{note.label_name} has other values than the clients gave, in their order",
                "2.3.5",
                note,
            )

        if note.label in heard:
            yield f"{note.label_name} comes twice", "2.3.5", note

        heard.add(note.label)


def _owed(said: Sequence[Note], everybody: Sequence[Conversation]) -> Iterator[_Told]:
    """Yield labels that all clients have given, and that the server did not broadcast."""

    heard = {note.label for note in said if note.kind == "COLL"}
    # A label is due once every client has given it. One that some
    # clients leave out may wait for them still.
    given = sorted(_submitted(everybody).items())

    owed = [
        label
        for label, clients in given
        if len(clients) == len(everybody) and label not in heard
    ]
    # A server that said nothing has no message to which the fault could be tied.
    if owed and said:
        yield (
            f"label {LABELS.get(owed[0], hex(owed[0]))} of all clients was never broadcast",
            "2.3.5",
            said[-1],
        )
