"""Evidence of start-up: the server, the ranks and their nodes, each client's progress.

What the witness saw of each process, and what clients and server said to each other on the wire, is
held against the plan. Each public function examines one item, and yields what speaks against it
with the phase and the party to blame; an item without a failure is fulfilled.
"""

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

# The phase of a broken rule by its clause; rules of other clauses are about labels (coll).
_RULES = {"2.3.2": "auth", "2.3.3": "auth", "2.3.7": "fini"}
_ANYWHERE = ("", "*", "0.0.0.0", "::")  # noqa: S104  (compared, not bound)
# The method of impi's own challenge: IMPI 0.0 has 0 (none) and 1 (a key).
_CHALLENGE = 31
# Why nothing is known of a process: of one that waits for a look, and of a user's compiled one.
_UNSEEN = ("the process was not examined", "it ended before MPI was seen in it")
_STEPS = ("connect", "auth", "impi", "done", "fini")


def server(facts: Facts) -> Failed:
    """The server printed where it listens: an address, not the wildcard (IMPI 2.2.1)."""
    if not facts.seen.hostport:
        yield failing(
            "host:port",
            ending(facts.seen.server) if facts.seen.server else "it was not started",
            "server",
            "server",
        )
    elif facts.seen.hostport.rpartition(":")[0].strip("[]") in _ANYWHERE:
        yield failing(
            "an address at which clients reach it",
            f"it printed {facts.seen.hostport}",
            "server",
            "server",
        )


def library(facts: Facts) -> Failed:
    """Every process has mapped the libmpi of its planned vendor, impi's for C, and no other."""
    for rank in facts.seen.ranks:
        if rank.rank is None or not (actual := _other_library(facts, rank)):
            continue

        vendor, prefix = (
            vendor_of(facts, rank),
            facts.seen.nodes.prefixes.get(rank.node, ""),
        )

        expected = (
            "no libmpi"
            if not manifest(vendor).has_library
            else f"the libmpi of {prefix or vendor}, and no other"
        )
        if ours := facts.seen.nodes.own_libraries.get(rank.node):
            expected += f", beside impi's {ours}"

        yield failing(expected, actual, "init", who(facts, rank))


def _without_ours(libraries: Mapping[str, str], ours: str) -> dict[str, str]:
    """Return libraries without impi's: what lies below a folder ``ours``, or beside a file."""
    if ours.endswith("/"):
        return {
            path: sha for path, sha in libraries.items() if not path.startswith(ours)
        }

    folder = PurePosixPath(ours).parent if ours else None

    return {
        path: sha
        for path, sha in libraries.items()
        if PurePosixPath(path).parent != folder
    }


def _other_library(facts: Facts, rank: RankSeen) -> str:
    """Return what a process has mapped against the plan; empty: all is as planned."""

    if rank.process.libraries is None:
        return _UNSEEN[facts.case.mute]

    # Two libraries may be mapped at once: impi's for compiled programs,
    # and the vendor's below it.
    ours = facts.seen.nodes.own_libraries.get(rank.node, "")

    others = _without_ours(rank.process.libraries, ours)
    if _misses(ours, rank.process.libraries):
        # The program runs under another libmpi than impi's, be it a job of its own.
        return f"{_lacks(ours)}; {_mapped(others) or 'no libmpi is'}"

    if not manifest(vendor_of(facts, rank)).has_library:
        return _mapped(others)

    if not others:
        # A user's compiled program is not held: it may have had that library between two looks.
        return "" if facts.case.mute else "no libmpi is mapped"

    prefix = facts.seen.nodes.prefixes.get(rank.node, "")
    # A digest decides, for the same file may be mapped by another name.
    wanted, place = (
        facts.seen.nodes.libraries.get(rank.node, ()),
        f"{prefix}/" if prefix else "",
    )
    # With --replace the place counts, too: the same library may be mapped from elsewhere.
    own = {
        path
        for path, digest in others.items()
        if digest in wanted and path.startswith(place)
    }

    return _mapped(path for path in others if path not in own)


def _misses(ours: str, libraries: Mapping[str, str]) -> bool:
    """Whether impi's library is not mapped: that file, or any in that folder."""
    if ours.endswith("/"):
        return not any(path.startswith(ours) for path in libraries)

    return bool(ours) and ours not in libraries


def _lacks(ours: str) -> str:
    return (
        f"nothing of {ours} is mapped"
        if ours.endswith("/")
        else f"{ours} is not mapped"
    )


def _mapped(paths: Iterable[str]) -> str:
    """Return the libraries that should not be mapped, as text; empty where there is none."""
    text = ", ".join(paths)
    return f"mapped: {text}" if text else ""


def source(facts: Facts) -> Failed:
    """Every process has loaded impi's sources as they are in this checkout."""
    for rank in facts.seen.ranks:
        if (
            rank.rank is not None
            and rank.process.other_sources != ()
            and not _is_in_c(facts, rank)
        ):
            others = rank.process.other_sources
            yield failing(
                "the impi of this checkout",
                "it names no source"
                if others is None
                else f"other text: {listed(others[:3])}",
                "init",
                who(facts, rank),
            )


def _is_in_c(facts: Facts, rank: RankSeen) -> bool:
    """Whether the program is in C, which can say nothing of impi."""
    return (
        "abi" in facts.settings
        or facts.case.mute
        or manifest(vendor_of(facts, rank)).kind == "native"
    )


def world(facts: Facts) -> Failed:
    """Every process sees the planned job, and its vendor's own world has the client's size."""
    # Two processes may claim one rank, so take each rank once.
    taken: set[int] = set()
    for rank in facts.seen.ranks:
        if rank.rank is None:
            continue

        np, vendor = len(facts.roster.of_client(rank.client)), vendor_of(facts, rank)
        local = rank.says.local or {}
        expected = (
            f"one of {facts.roster.size} ranks, {np} of them in {vendor}'s own world"
        )
        actual = ""

        says_nothing = facts.case.mute
        if rank.says.nonce != facts.nonce and not says_nothing:
            actual = "it read another cell's plan"
        elif rank.says.size != facts.roster.size and not says_nothing:
            actual = f"rank {rank.rank} of {rank.says.size}"
        elif rank.rank in taken:
            actual = f"a second rank {rank.rank}"
        elif _is_in_c(facts, rank):
            # a program in C sees only the job's world: the wire tells how many procs its client has
            actual = ""
        elif not rank.says.local:
            actual = "it reports nothing about its vendor's world"
        elif (
            local.get("vendor") not in (vendor, manifest(vendor).name)
            or local.get("size") != np
        ):
            actual = f"{local.get('size')} in the world of {local.get('vendor')}"

        taken.add(rank.rank)
        if actual:
            yield failing(expected, actual, "init", who(facts, rank))


def placement(facts: Facts) -> Failed:
    """Every rank runs on its planned node, by the nonce that it read from the disk there."""
    for rank in facts.seen.ranks:
        if rank.rank is None:
            continue

        # The nonce of a node lies on its disk only. A rank that started
        # elsewhere cannot have read it.
        wanted = facts.seen.nodes.node_nonces.get(rank.node)
        here = facts.roster.on_node(rank.node)

        actual = ""
        if not facts.case.mute and (not wanted or rank.says.node_nonce != wanted):
            actual = f"rank {rank.rank} read another disk than that of {rank.node}"
        elif rank.rank not in here:
            actual = f"rank {rank.rank} on {rank.node}"

        if actual:
            yield failing(
                f"ranks {listed(here)} on {rank.node}", actual, "init", who(facts, rank)
            )


def _progress(facts: Facts, wire: Wire, client: int) -> tuple[int, bool, float]:
    """Return a key of the order of blame: least progress first, then the first to end.

    A client that ended did not wait for others; one that still runs may have.
    """

    # How far the client came by the wire, and when its impirun ended.
    reached = wire.startup.reached.get(client)
    command = facts.seen.clients[client] if client < len(facts.seen.clients) else None
    ended = (
        command.ended_s if command is not None and command.code is not None else None
    )

    return _STEPS.index(reached) if reached else -1, ended is None, ended or 0.0


def reach(facts: Facts) -> Failed:
    """Every client completed start-up, and the procs broadcast there are the planned ones."""

    wire = facts.seen.wire or Wire()
    for client in sorted(
        range(facts.roster.nclients), key=lambda c: _progress(facts, wire, c)
    ):
        # If several clients did not come through, the one that stopped
        # first is named first.
        reached = wire.startup.reached.get(client)
        if reached is None or _STEPS.index(reached) < _STEPS.index("done"):
            # Only an IMPI message numbers a client: one without it did not pass authentication.
            phase = "auth" if reached in (None, "connect", "auth") else "coll"
            actual = (
                f"it came as far as {reached}"
                if reached
                else "it did not come as far as its IMPI message"
            )
            said = last_words(facts, client)
            yield failing(
                "start-up complete (DONE)", actual + said, phase, facts.client(client)
            )

    # The server's broadcast is held against the plan: a client may
    # have started too few procs.
    told = tuple(len(facts.roster.of_client(c)) for c in range(facts.roster.nclients))
    if wire.startup.clients != told:
        yield failing(
            f"clients of {listed(told)} procs",
            f"clients of {listed(wire.startup.clients)} procs",
            "coll",
            "start-up",
        )


@on_wire
def protocol(facts: Facts, wire: Wire) -> Failed:
    """Neither the server nor a client breaks a rule of start-up (IMPI 2.3.2 to 2.3.7)."""
    for breach in wire.breaches:
        if breach.startup:
            yield failing(
                f"start-up as IMPI {breach.clause} demands it",
                breach.text,
                _RULES.get(breach.clause, "coll"),
                sender(facts, breach.client, None),
            )


def auth(facts: Facts) -> Failed:
    """Every client authenticated by the method of the variant."""
    wire = facts.seen.wire or Wire()

    chosen = facts.settings.get("auth")
    for client in range(facts.roster.nclients):
        # Without a variant of authentication, jobs run with IMPI_AUTH_NONE.
        method = 1 if chosen in ("key", "both") else 0

        vendor = facts.roster.ranks[facts.roster.of_client(client)[0]].vendor
        # A native client knows IMPI's own methods alone, and joins such a job
        # without authentication.
        if chosen == "challenge" and manifest(vendor).kind == "backed":
            method = _CHALLENGE

        if wire.startup.methods.get(client) != method:
            yield failing(
                f"authentication method {method}",
                f"method {wire.startup.methods.get(client)}",
                "auth",
                # The client offered the method: then the server chose wrongly.
                "server"
                if method in wire.startup.offers.get(client, ())
                else facts.client(client),
            )


@on_wire
def mesh(_facts: Facts, wire: Wire) -> Failed:
    """Every two hosts of different clients have a channel (IMPI 2.3.8), or those in need."""
    for pair in wire.no_channel:
        expected = "a channel between every two hosts of different clients"
        # the higher host connects, and says its rank (IMPI 2.3.8)
        blame = pair.partition(" to ")[0]
        yield failing(expected, f"no channel from {pair}", "mesh", blame)

    for pair in wire.needless:
        expected = "channels of a lazy job between hosts that have a message"
        blame = pair.partition(" to ")[0]
        yield failing(expected, f"one without, from {pair}", "mesh", blame)


def ranks(facts: Facts) -> Failed:
    """Every planned rank wrote its first report, on its planned node."""
    # By the plan and not by what was seen: a rank that no launcher started writes no report.
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
    # P_PID is what other clients use as a proc's name (IMPI 3.2), so it
    # must be that of the process.
    pids = (facts.seen.wire or Wire()).startup.pids
    for rank in facts.seen.ranks:
        if rank.rank is not None and pids.get(rank.rank) != rank.pid:
            yield failing(
                f"P_PID {rank.pid}",
                f"P_PID {pids.get(rank.rank)} on the wire",
                "coll",
                who(facts, rank),
            )
