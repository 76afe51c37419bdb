"""Evidence of start-up: the server, the ranks and their nodes, each client's progress."""

from __future__ import annotations

from collections.abc import Iterable

from impi.testbed.evidence.evidence import Wire
from impi.testbed.judge.cell_facts import Facts, Failed, Item, ending, last_words, listed, vendor_of, who, wire_of

_STEPS = ("connect", "auth", "impi", "done", "fini")


def server(facts: Facts, name: str) -> Failed:
    """The server printed where it listens."""
    if not facts.seen.hostport:
        actual = ending(facts.seen.server) if facts.seen.server else "it was not started"
        yield Item(name=name, ok=False, expected="host:port", actual=actual, phase="server", blame="server")


def library(facts: Facts, name: str) -> Failed:
    """Every process has mapped the MPI library of its planned vendor, and no other."""
    for rank in facts.seen.ranks:
        if rank.rank is None:
            continue
        vendor, prefix = vendor_of(facts, rank), facts.seen.prefixes.get(rank.node, "")
        if rank.libraries is None:
            actual = "nobody looked at the process"
        elif vendor == "pure":
            actual = _mapped(rank.libraries)
        elif not rank.libraries:
            actual = "no libmpi is mapped"
        else:
            wanted, place = facts.seen.libraries.get(rank.node, ()), f"{prefix}/" if prefix else ""
            own = {path for path, digest in rank.libraries.items() if digest in wanted and path.startswith(place)}
            actual = _mapped(path for path in rank.libraries if path not in own)
        if actual:
            expected = "no libmpi" if vendor == "pure" else f"the libmpi of {prefix or vendor}, and no other"
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="init", blame=who(facts, rank))


def _mapped(paths: Iterable[str]) -> str:
    """Return the libraries that should not be mapped, as text; empty where there is none."""
    text = ", ".join(paths)
    return f"mapped: {text}" if text else ""


def source(facts: Facts, name: str) -> Failed:
    """Every process has loaded impi's sources as they are in this checkout."""
    for rank in facts.seen.ranks:
        if rank.rank is not None and rank.other_sources != ():
            others = rank.other_sources
            actual = "it names no source" if others is None else f"other text: {listed(others[:3])}"
            expected = "impi as it is in this checkout"
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="init", blame=who(facts, rank))


def world(facts: Facts, name: str) -> Failed:
    """Every process sees the planned job, and its vendor's own world has the client's size."""
    taken: set[int] = set()
    for rank in facts.seen.ranks:
        if rank.rank is None:
            continue
        np, vendor = len(facts.roster.of_client(rank.client)), vendor_of(facts, rank)
        local = rank.local or {}
        expected = f"one of {facts.roster.size} ranks, {np} of them in {vendor}'s own world"
        actual = ""
        if rank.nonce != facts.nonce:
            actual = "it read another cell's plan"
        elif rank.size != facts.roster.size:
            actual = f"rank {rank.rank} of {rank.size}"
        elif rank.rank in taken:
            actual = f"a second rank {rank.rank}"
        elif not rank.local:
            actual = "it says nothing of its vendor's world"
        elif (local.get("vendor"), local.get("size")) != (vendor, np):
            actual = f"{local.get('size')} in the world of {local.get('vendor')}"
        taken.add(rank.rank)
        if actual:
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="init", blame=who(facts, rank))


def placement(facts: Facts, name: str) -> Failed:
    """Every rank runs on its planned node, by the nonce that it read from the disk there."""
    for rank in facts.seen.ranks:
        if rank.rank is None:
            continue
        wanted = facts.seen.node_nonces.get(rank.node)
        here = facts.roster.on_node(rank.node)
        actual = ""
        if not wanted or rank.node_nonce != wanted:
            actual = f"rank {rank.rank} read another disk than that of {rank.node}"
        elif rank.rank not in here:
            actual = f"rank {rank.rank} on {rank.node}"
        if actual:
            expected = f"ranks {listed(here)} on {rank.node}"
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="init", blame=who(facts, rank))


def reach(facts: Facts, name: str) -> Failed:
    """Every client completed start-up, and the procs broadcast there are the planned ones."""
    wire = facts.seen.wire or Wire()
    for client in range(facts.roster.nclients):
        reached = wire.reached.get(client)
        if reached is None or _STEPS.index(reached) < _STEPS.index("done"):
            # Only an IMPI message numbers a client: one without it did not pass authentication.
            phase = "auth" if reached in (None, "connect", "auth") else "coll"
            actual = f"it came as far as {reached}" if reached else "it did not come as far as its IMPI message"
            said = last_words(facts, client)
            expected = "start-up complete (DONE)"
            blame = facts.client(client)
            yield Item(name=name, ok=False, expected=expected, actual=actual + said, phase=phase, blame=blame)
    told = tuple(len(facts.roster.of_client(c)) for c in range(facts.roster.nclients))
    if wire.clients != told:
        expected, actual = f"clients of {listed(told)} procs", f"clients of {listed(wire.clients)} procs"
        yield Item(name=name, ok=False, expected=expected, actual=actual, phase="coll", blame="start-up")


def auth(facts: Facts, name: str) -> Failed:
    """Every client authenticated by the method of the variant."""
    wire = facts.seen.wire or Wire()
    method = 1 if "auth=key" in facts.variant else 0
    for client in range(facts.roster.nclients):
        if wire.methods.get(client) != method:
            expected, actual = f"authentication method {method}", f"method {wire.methods.get(client)}"
            blame = facts.client(client)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="auth", blame=blame)


def mesh(facts: Facts, name: str) -> Failed:
    """Every two hosts of different clients have a channel."""
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
        elif item.no_channel:
            actual = "no channel from " + item.no_channel[0]
            expected = "a channel between every two hosts of different clients"
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="mesh", blame=item.no_channel[0])


def ranks(facts: Facts, name: str) -> Failed:
    """Every planned rank reported."""
    for planned in facts.roster.ranks:
        if facts.rank(planned.rank) is None:
            actual = "no report" + last_words(facts, planned.client)
            expected = f"a report of rank {planned.rank} from {planned.node}"
            blame = facts.roster.label(planned.rank)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="init", blame=blame)


def pid(facts: Facts, name: str) -> Failed:
    """The process ids broadcast in start-up are those of the observed processes."""
    pids = (facts.seen.wire or Wire()).pids
    for rank in facts.seen.ranks:
        if rank.rank is not None and pids.get(rank.rank) != rank.pid:
            expected, actual = f"P_PID {rank.pid}", f"P_PID {pids.get(rank.rank)} on the wire"
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="coll", blame=who(facts, rank))
