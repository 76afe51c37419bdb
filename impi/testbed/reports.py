"""What the witnesses printed, as evidence about ranks."""

from __future__ import annotations

import json
from typing import Any

from impi.testbed.evidence import RankSeen

__all__ = ["read_ranks"]


def read_ranks(node: str, client: int, printed: bytes) -> list[RankSeen]:
    """The processes that the witness of a node saw; whatever makes no sense in its lines is as if it were not there."""
    said: dict[str, Any] = {}
    for line in printed.splitlines():
        try:
            value = json.loads(line)
            said[value["kind"]] = value["value"]
        except (ValueError, KeyError, TypeError):
            continue
    files = {name: value for name, value in said.get("files", {}).items() if isinstance(value, dict)}
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
                size=init.get("size"),
                nonce=init.get("nonce", ""),
                node_nonce=init.get("node_nonce", ""),
                local=done.get("local") or init.get("local"),
                libraries=look["libraries"] if look is not None and "error" not in look else None,
                performed=done.get("performed"),
                failures=tuple(done.get("failures", ())),
                status=wrap.get("status"),
                ended=wrap.get("ended"),
                stack=tuple(said.get("stacks", {}).get(f"stack-{pid}", ())),
            )
        )
    return found
