"""Records as lines of text and as objects. No record holds the key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from impi.lab.dissect.decode.host_channel import USED_FIELDS
from impi.lab.dissect.show.record_list import FIELDS, Record, Value

_SHOWN: Final = 16
_CARRIERS: Final = ("DATA", "DATASYNC")
# for quality of service only (IMPI 3.5): shown unless 0
_QUIET: Final = ("seqnum", "count", "dtype", "reserved")
_ORDER: Final = {name: place for place, name in enumerate(FIELDS)}


def as_object(record: Record, *, whole: bool) -> dict[str, Value | float]:
    """Return a record's fields; ``data`` in hexadecimal, at most 16 octets unless ``whole``."""
    found: dict[str, Value | float] = {
        "time": record.time,
        "job": record.job,
        "connection": record.connection,
        "from": record.source,
        "to": record.dest,
        "offset": record.offset,
        "size": record.size,
        "type": record.kind,
        **record.fields,
    }
    if record.kind in _CARRIERS:
        found["data"] = (record.data if whole else record.data[:_SHOWN]).hex()

    return dict(sorted(found.items(), key=lambda item: _ORDER[item[0]]))


def as_line(
    record: Record, *, start: float, clocked: bool, several: bool, whole: bool
) -> str:
    """Return one line: job if ``several``, seconds since ``start`` (or step), ends, content."""
    when = (
        f"{record.time - start:12.6f}"
        if clocked
        else f"{'#' + format(record.time, '.0f'):>12}"
    )
    job = f" [job {record.job}]" if several else ""

    return f"{when}{job} {_way(record)}: {_what(record, whole)}"


def _way(record: Record) -> str:
    ends = []
    for name, end in ((record.source, "src"), (record.dest, "dest")):
        if record.kind == "FINI" or end not in record.fields:
            ends.append(name)
        elif f"{end}_rank" in record.fields:
            ends.append(
                f"client {record.fields[f'{end}_client']} rank {record.fields[f'{end}_rank']}"
            )
        else:
            ends.append(f"{name} proc {record.fields[end]}")

    return " -> ".join(ends)


def _what(record: Record, whole: bool) -> str:
    tell = _TELLERS.get(record.kind)
    if tell is not None:
        return tell(record)

    if record.kind in _CARRIERS:
        return _message(record, whole)

    used = USED_FIELDS.get(record.kind)
    if used is not None and "src" in record.fields:
        return _assign(record.kind, {name: record.fields[name] for name in used})

    return _assign(
        record.kind, {n: v for n, v in record.fields.items() if n != "len" or v}
    )


def _error(record: Record) -> str:
    fields = record.fields
    octets = f" [octets {fields['octets']}]" if "octets" in fields else ""
    return f"ERROR at octet {record.offset}: {fields['text']} (IMPI {fields['clause']}){octets}"


def _gap(record: Record) -> str:
    more = f"; {record.size} octets not decoded" if record.size else ""
    return f"GAP at octet {record.offset}: {record.fields['text']}{more}"


def _opening(record: Record) -> str:
    ends = [
        str(record.fields[end])
        for end in ("opener", "accepter")
        if end in record.fields
    ]
    return f"connects ({' -> '.join(ends)})" if ends else "connects"


def _label(record: Record) -> str:
    fields = record.fields
    mask = (
        f" client_mask=0x{fields['client_mask']:x}" if "client_mask" in fields else ""
    )
    return f"COLL {fields.get('label', '')}{mask} {_bare(fields.get('values', []))}"


_TELLERS: Final[dict[str, Callable[[Record], str]]] = {
    "OPEN": _opening,
    "CLOSE": lambda _: "closes",
    "RESET": lambda _: "resets the connection",
    "KEY": lambda record: f"KEY ({record.size} octets, not shown)",
    "COLL": _label,
    "ERROR": _error,
    "GAP": _gap,
}


def _message(record: Record, whole: bool) -> str:
    fields = record.fields
    size = (
        str(fields["len"])
        if fields["len"] == fields["msglen"]
        else f"{fields['len']}/{fields['msglen']}"
    )
    told = {name: fields[name] for name in ("tag", "cid")}
    told |= {
        "len": size,
        **{name: fields[name] for name in ("lsrank", "srqid", "drqid")},
    }
    told |= {name: fields[name] for name in _QUIET if fields[name]}
    data = record.data if whole else record.data[:_SHOWN]
    more = "..." if len(record.data) > len(data) else ""

    return _assign(record.kind, told) + f" [{data.hex()}{more}]"


def _assign(kind: str, fields: Mapping[str, Value]) -> str:
    return " ".join(
        [kind, *(f"{name}={_bare(value)}" for name, value in fields.items())]
    )


def _bare(value: Value) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)
