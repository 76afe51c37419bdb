"""Evidence of what the server says of a loss that the job survives (``--resilient``)."""

from __future__ import annotations

from typing import Final

from impi.testbed.judge.cell_facts import Facts, Failed, Item, listed, wire_of

_GOES_ON: Final = "the job goes on without"
"""What the server prints behind the name of a client that is lost."""


def told(facts: Facts, name: str) -> Failed:
    """The server tells each client that is left of the loss that the case says, and of no other."""
    lost = facts.ends.lost
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
            return
        for client in range(facts.roster.nclients):
            wanted = () if lost in (None, client) else (lost,)
            seen = item.losses.get(client, ())
            if seen != wanted:
                expected, actual = (_losses(each) for each in (wanted, seen))
                yield Item(
                    name=name,
                    ok=False,
                    expected=f"the server tells client {client} of {expected}",
                    actual=f"of {actual}",
                    phase="case",
                    blame=facts.client(seen[0]) if seen and seen[0] in range(facts.roster.nclients) else "server",
                )


def _losses(clients: tuple[int | None, ...]) -> str:
    return f"the loss of client {listed(clients)}" if clients else "no loss"


def printed(facts: Facts, name: str) -> Failed:
    """The server prints that this client is lost, and no other."""
    said = facts.seen.server.stderr.splitlines() if facts.seen.server is not None else []
    lines = [line for line in said if _GOES_ON in line]
    seen = tuple(c for c in range(facts.roster.nclients) if any(f"client {c}" in line for line in lines))
    wanted = () if facts.ends.lost is None else (facts.ends.lost,)
    if seen != wanted:
        expected, actual = (_losses(each) for each in (wanted, seen))
        yield Item(
            name=name,
            ok=False,
            expected=f"the server prints {expected}",
            actual=f"it prints {actual}",
            phase="fini",
            blame="server",
        )
