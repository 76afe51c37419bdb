"""The output of the witnesses as evidence about ranks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from impi.lab.evidence.call_logs import read_calls
from impi.lab.evidence.gathered import Checks, Claims, Process, RankSeen

_PACKAGE = Path(__file__).absolute().parents[2]


@cache
def planned_sources() -> Mapping[str, str]:
    """SHA-256 of every module of impi in this checkout, as it is when it is first asked for."""
    found = {}
    for path in _PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def planned_digest() -> str:
    """One SHA-256 for all planned sources."""
    return hashlib.sha256(json.dumps(planned_sources(), sort_keys=True).encode()).hexdigest()


def read_ranks(node: str, client: int, printed: bytes) -> list[RankSeen]:
    """Return the processes that the node's witness saw; malformed lines are ignored."""
    said = _said(printed)
    files = {name: value for name, value in said.get("files", {}).items() if isinstance(value, dict)}
    calls: dict[str, str] = said.get("calls", {})
    mapped = {int(item["pid"]): item for item in said.get("identity", [])}
    wraps = {int(f["pid"]): f for name, f in files.items() if name.startswith("wrap-") and "pid" in f}
    pids = {int(f["pid"]) for name, f in files.items() if name.startswith(("init-", "done-")) and "pid" in f}
    found = []
    for pid in sorted(pids | set(wraps)):
        init, done = files.get(f"init-{pid}", {}), files.get(f"done-{pid}", {})
        look, wrap = mapped.get(pid), wraps.get(pid, {})
        found.append(
            RankSeen(
                node=node,
                client=client,
                pid=pid,
                rank=init.get("rank"),
                says=Claims(
                    size=init.get("size"),
                    nonce=init.get("nonce", ""),
                    node_nonce=init.get("node_nonce", ""),
                    local=done.get("local") or init.get("local"),
                ),
                process=Process(
                    libraries=look["libraries"] if look is not None and "error" not in look else None,
                    shared=_words(look, "shared"),
                    ancestors=_words(look, "ancestors"),
                    listens=_words(look, "listens"),
                    node_listens=tuple(said.get("listeners", ())),
                    other_sources=_others(look.get("sources")) if look is not None else None,
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


def _words(look: Mapping[str, list[str]] | None, name: str) -> tuple[str, ...]:
    """One list of what was seen of a process from outside."""
    return tuple(look.get(name, ())) if look is not None else ()


def _said(printed: bytes) -> dict[str, Any]:
    """Return the values that the witness printed, by their kind."""
    said: dict[str, Any] = {}
    for line in printed.splitlines():
        try:
            value = json.loads(line)
            said[value["kind"]] = value["value"]
        except (ValueError, KeyError, TypeError):
            continue
    return said


def _others(sources: Mapping[str, str] | None) -> tuple[str, ...] | None:
    """Return modules that differ from the plan; None without any modules."""
    planned = planned_sources()
    return tuple(sorted(n for n, digest in sources.items() if planned.get(n) != digest)) if sources else None
