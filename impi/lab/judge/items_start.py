"""Evidence of start-up: the server, the ranks and their nodes, each client's progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from impi.base.manifests import manifest
from impi.lab.evidence.gathered import RankSeen, Wire
from impi.lab.judge.cell_facts import (
    Facts,
    Failed,
    ending,
    failing,
    last_words,
    listed,
    on_wire,
    sender,
    vendor_of,
    who,
)

# The phase of a broken rule of start-up by clause, where it is not the exchange of labels.
_RULES = {"2.3.2": "auth", "2.3.3": "auth", "2.3.7": "fini"}
_ANYWHERE = ("", "*", "0.0.0.0", "::")  # noqa: S104  (compared, not bound)
_CHALLENGE = 31
_STEPS = ("connect", "auth", "impi", "done", "fini")


def server(facts: Facts) -> Failed:
    """The server printed where it listens: an address, not the wildcard (IMPI 2.2.1)."""
    if not facts.seen.hostport:
        yield failing(
            "host:port", ending(facts.seen.server) if facts.seen.server else "it was not started", "server", "server"
        )
    elif facts.seen.hostport.rpartition(":")[0].strip("[]") in _ANYWHERE:
        yield failing("an address at which clients reach it", f"it printed {facts.seen.hostport}", "server", "server")


def library(facts: Facts) -> Failed:
    """Every process has mapped the libmpi of its planned vendor, impi's for C, and no other."""
    for rank in facts.seen.ranks:
        if rank.rank is None or not (actual := _other_library(facts, rank)):
            continue
        vendor, prefix = vendor_of(facts, rank), facts.seen.nodes.prefixes.get(rank.node, "")
        expected = (
            "no libmpi" if not manifest(vendor).has_library else f"the libmpi of {prefix or vendor}, and no other"
        )
        if ours := facts.seen.nodes.own_libraries.get(rank.node):
            expected += f", beside impi's {ours}"
        yield failing(expected, actual, "init", who(facts, rank))


def _apart(libraries: Mapping[str, str], ours: str) -> dict[str, str]:
    """Return libraries without impi's, beside which lie those with its other names."""
    folder = PurePosixPath(ours).parent if ours else None
    return {path: sha for path, sha in libraries.items() if PurePosixPath(path).parent != folder}


def _other_library(facts: Facts, rank: RankSeen) -> str:
    """Return what a process has mapped against the plan; empty: all is as planned."""
    if rank.process.libraries is None:
        return "nobody looked at the process"
    ours = facts.seen.nodes.own_libraries.get(rank.node, "")
    others = _apart(rank.process.libraries, ours)
    if ours and ours not in rank.process.libraries:
        # The program runs under another libmpi than impi's, be it a job of its own.
        return f"{ours} is not mapped; {_mapped(others) or 'no libmpi is'}"
    if not manifest(vendor_of(facts, rank)).has_library:
        return _mapped(others)
    if not others:
        return "no libmpi is mapped"
    prefix = facts.seen.nodes.prefixes.get(rank.node, "")
    wanted, place = facts.seen.nodes.libraries.get(rank.node, ()), f"{prefix}/" if prefix else ""
    own = {path for path, digest in others.items() if digest in wanted and path.startswith(place)}
    return _mapped(path for path in others if path not in own)


def _mapped(paths: Iterable[str]) -> str:
    """Return the libraries that should not be mapped, as text; empty where there is none."""
    text = ", ".join(paths)
    return f"mapped: {text}" if text else ""


def source(facts: Facts) -> Failed:
    """Every process has loaded impi's sources as they are in this checkout."""
    for rank in facts.seen.ranks:
        if rank.rank is not None and rank.process.other_sources != () and not _is_in_c(facts, rank):
            others = rank.process.other_sources
            yield failing(
                "impi as it is in this checkout",
                "it names no source" if others is None else f"other text: {listed(others[:3])}",
                "init",
                who(facts, rank),
            )


def _is_in_c(facts: Facts, rank: RankSeen) -> bool:
    """Whether the program is in C, which can say nothing of impi."""
    return "abi" in facts.settings or manifest(vendor_of(facts, rank)).kind == "native"


def world(facts: Facts) -> Failed:
    """Every process sees the planned job, and its vendor's own world has the client's size."""
    taken: set[int] = set()
    for rank in facts.seen.ranks:
        if rank.rank is None:
            continue
        np, vendor = len(facts.roster.of_client(rank.client)), vendor_of(facts, rank)
        local = rank.says.local or {}
        expected = f"one of {facts.roster.size} ranks, {np} of them in {vendor}'s own world"
        actual = ""
        if rank.says.nonce != facts.nonce:
            actual = "it read another cell's plan"
        elif rank.says.size != facts.roster.size:
            actual = f"rank {rank.rank} of {rank.says.size}"
        elif rank.rank in taken:
            actual = f"a second rank {rank.rank}"
        elif _is_in_c(facts, rank):
            actual = ""  # its own world is the job's: the wire tells how many procs its client has
        elif not rank.says.local:
            actual = "it says nothing of its vendor's world"
        elif local.get("vendor") not in (vendor, manifest(vendor).name) or local.get("size") != np:
            actual = f"{local.get('size')} in the world of {local.get('vendor')}"
        taken.add(rank.rank)
        if actual:
            yield failing(expected, actual, "init", who(facts, rank))


def placement(facts: Facts) -> Failed:
    """Every rank runs on its planned node, by the nonce that it read from the disk there."""
    for rank in facts.seen.ranks:
        if rank.rank is None:
            continue
        wanted = facts.seen.nodes.node_nonces.get(rank.node)
        here = facts.roster.on_node(rank.node)
        actual = ""
        if not wanted or rank.says.node_nonce != wanted:
            actual = f"rank {rank.rank} read another disk than that of {rank.node}"
        elif rank.rank not in here:
            actual = f"rank {rank.rank} on {rank.node}"
        if actual:
            yield failing(f"ranks {listed(here)} on {rank.node}", actual, "init", who(facts, rank))


def _progress(facts: Facts, wire: Wire, client: int) -> tuple[int, bool, float]:
    """Order clients by how far they came, then by their ends: who ended did not wait for others."""
    reached = wire.startup.reached.get(client)
    command = facts.seen.clients[client] if client < len(facts.seen.clients) else None
    ended = command.ended_s if command is not None and command.code is not None else None
    return _STEPS.index(reached) if reached else -1, ended is None, ended or 0.0


def reach(facts: Facts) -> Failed:
    """Every client completed start-up, and the procs broadcast there are the planned ones."""
    wire = facts.seen.wire or Wire()
    for client in sorted(range(facts.roster.nclients), key=lambda c: _progress(facts, wire, c)):
        reached = wire.startup.reached.get(client)
        if reached is None or _STEPS.index(reached) < _STEPS.index("done"):
            # Only an IMPI message numbers a client: one without it did not pass authentication.
            phase = "auth" if reached in (None, "connect", "auth") else "coll"
            actual = f"it came as far as {reached}" if reached else "it did not come as far as its IMPI message"
            said = last_words(facts, client)
            yield failing("start-up complete (DONE)", actual + said, phase, facts.client(client))
    told = tuple(len(facts.roster.of_client(c)) for c in range(facts.roster.nclients))
    if wire.startup.clients != told:
        yield failing(
            f"clients of {listed(told)} procs", f"clients of {listed(wire.startup.clients)} procs", "coll", "start-up"
        )


@on_wire
def protocol(facts: Facts, wire: Wire) -> Failed:
    """Neither the server nor a client breaks a rule of start-up (IMPI 2.3.2 to 2.3.7)."""
    for breach in wire.breaches:
        if breach.startup:
            yield failing(
                f"start-up as IMPI {breach.clause} has it",
                breach.text,
                _RULES.get(breach.clause, "coll"),
                sender(facts, breach.client, None),
            )


def auth(facts: Facts) -> Failed:
    """Every client authenticated by the method of the variant."""
    wire = facts.seen.wire or Wire()
    chosen = facts.settings.get("auth")
    for client in range(facts.roster.nclients):
        method = 1 if chosen in ("key", "both") else 0
        vendor = facts.roster.ranks[facts.roster.of_client(client)[0]].vendor
        if chosen == "challenge" and manifest(vendor).kind == "backed":
            method = _CHALLENGE
        if wire.startup.methods.get(client) != method:
            yield failing(
                f"authentication method {method}",
                f"method {wire.startup.methods.get(client)}",
                "auth",
                "server" if method in wire.startup.offers.get(client, ()) else facts.client(client),
            )


@on_wire
def mesh(_facts: Facts, wire: Wire) -> Failed:
    """Every two hosts of different clients have a channel."""
    for pair in wire.no_channel:
        expected = "a channel between every two hosts of different clients"
        blame = pair.partition(" to ")[0]  # the higher one connects and says its rank
        yield failing(expected, f"no channel from {pair}", "mesh", blame)


def ranks(facts: Facts) -> Failed:
    """Every planned rank reported."""
    for planned in facts.roster.near:
        if facts.rank(planned.rank) is None:
            yield failing(
                f"a report of rank {planned.rank} from {planned.node}",
                "no report" + last_words(facts, planned.client),
                "init",
                facts.roster.label(planned.rank),
            )


def pid(facts: Facts) -> Failed:
    """The process ids broadcast in start-up are those of the observed processes."""
    pids = (facts.seen.wire or Wire()).startup.pids
    for rank in facts.seen.ranks:
        if rank.rank is not None and pids.get(rank.rank) != rank.pid:
            yield failing(f"P_PID {rank.pid}", f"P_PID {pids.get(rank.rank)} on the wire", "coll", who(facts, rank))
