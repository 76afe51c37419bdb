"""The output of the witnesses as evidence about ranks.

A witness prints JSON lines (``programs/witness.py``): what it saw of each process in /proc, and the
files that ranks and their wrappers wrote. :func:`read_ranks` joins both by process id, and never
takes a rank's word for what the witness can see.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from impi.lab.evidence.call_logs import read_calls
from impi.lab.evidence.gathered import Checks, Claims, Process, RankSeen

_PACKAGE = Path(__file__).absolute().parents[2]


@cache
def planned_sources() -> Mapping[str, str]:
    """Return SHA-256 of every module of impi in this checkout, as of the first call.

    Cached: an edit of the checkout in the middle of a run must not turn its cells red.
    """
    found = {}
    # By module name, as a rank names its modules: paths differ between nodes.
    for path in _PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = hashlib.sha256(
            path.read_bytes()
        ).hexdigest()

    return found


def planned_digest() -> str:
    """Return one SHA-256 for all planned sources."""
    return hashlib.sha256(
        json.dumps(planned_sources(), sort_keys=True).encode()
    ).hexdigest()


def read_ranks(
    node: str, client: int, printed: bytes, mute: Sequence[int] = ()
) -> list[RankSeen]:
    """Return the processes that the node's witness saw; malformed lines are ignored.

    ``mute``: the ranks of the client, if they say nothing of themselves.
    """

    # Three sources by pid: the witness's look, the wrapper's record,
    # the rank's own files.
    said = _printed_values(printed)
    files = {
        name: value
        for name, value in said.get("files", {}).items()
        if isinstance(value, dict)
    }
    calls: dict[str, str] = said.get("calls", {})
    mapped = {int(item["pid"]): item for item in said.get("identity", [])}
    wraps = {
        int(f["pid"]): f
        for name, f in files.items()
        if name.startswith("wrap-") and "pid" in f
    }
    # Reports without a wrapper's record count, too: a wrapper may have been killed.
    pids = {
        int(f["pid"])
        for name, f in files.items()
        if name.startswith(("init-", "done-")) and "pid" in f
    }

    found = []
    # A rank that never reported is seen by its wrapper's record alone.
    for pid in sorted(pids | set(wraps)):
        # The first report is written after MPI_Init, the last one behind
        # the last check.
        init, done = files.get(f"init-{pid}", {}), files.get(f"done-{pid}", {})
        look, wrap = mapped.get(pid), wraps.get(pid, {})
        found.append(
            RankSeen(
                node=node,
                client=client,
                pid=pid,
                rank=_told_by(wrap, mute, init),
                says=Claims(
                    size=init.get("size"),
                    nonce=init.get("nonce", ""),
                    node_nonce=init.get("node_nonce", ""),
                    # The last report counts: the library's count of messages grows until then.
                    local=done.get("local") or init.get("local"),
                ),
                process=Process(
                    # No look and an empty look differ: only the second one says
                    # that no libmpi is mapped.
                    libraries=look["libraries"]
                    if look is not None and "error" not in look
                    else None,
                    shared=_findings_of(look, "shared"),
                    ancestors=_findings_of(look, "ancestors"),
                    listens=_findings_of(look, "listens"),
                    node_listens=tuple(said.get("listeners", ())),
                    other_sources=_differing_modules(look.get("sources"))
                    if look is not None
                    else None,
                ),
                checks=Checks(
                    performed=done.get("performed"),
                    failures=tuple(done.get("failures", ())),
                    figures=done.get("figures", {}),
                ),
                status=wrap.get("status"),
                ended=wrap.get("ended"),
                stack=tuple(said.get("stacks", {}).get(f"stack-{pid}", ())),
                began=wrap.get("began"),
                initialised=init.get("at"),
                done=done.get("at"),
                calls=read_calls(calls.get(str(pid), "")),
            )
        )

    return found


def _told_by(
    wrap: Mapping[str, object], ranks: Sequence[int], init: Mapping[str, object]
) -> int | None:
    """Return the rank of a process: as it says, or as its launcher told its wrapper.

    ``ranks``: those of its client, if they say nothing.
    """
    if not ranks:
        rank = init.get("rank")
        return rank if isinstance(rank, int) else None

    # A compiled program reports nothing. Its wrapper knows the local
    # rank from the launcher, which counts inside the client.
    local = wrap.get("local")

    return ranks[local] if isinstance(local, int) and 0 <= local < len(ranks) else None


def _findings_of(look: Mapping[str, list[str]] | None, name: str) -> tuple[str, ...]:
    """Return one list of the witness's findings about a process."""
    return tuple(look.get(name, ())) if look is not None else ()


def _printed_values(printed: bytes) -> dict[str, Any]:
    """Return the values that the witness printed, by their kind."""
    said: dict[str, Any] = {}
    for line in printed.splitlines():
        try:
            value = json.loads(line)
            said[value["kind"]] = value["value"]
        # The witness may have been ended within a line: the rest still counts.
        except (ValueError, KeyError, TypeError):
            continue

    return said


def _differing_modules(sources: Mapping[str, str] | None) -> tuple[str, ...] | None:
    """Return the modules that differ from the plan; None: the process named no module."""
    planned = planned_sources()
    # A module that the checkout lacks is another text, too: its planned digest is None.
    return (
        tuple(sorted(n for n, digest in sources.items() if planned.get(n) != digest))
        if sources
        else None
    )
