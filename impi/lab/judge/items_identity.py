"""Evidence from outside: how octets of a client move, and which addresses are in use.

How it works: the witness reads /proc while all ranks wait at the gate after MPI_Init: mapped
libraries, the programs above a rank, shared segments, listeners. Each item compares that with the
plan of the cell, rank by rank, and yields its complaints. :func:`address` compares the labels of
start-up and the captured connections with the addresses of the nodes.

None of it asks a rank what it is: a program that runs under another library than planned would say
whatever its code says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from ipaddress import ip_address, ip_network
from pathlib import PurePosixPath

from impi.base.manifests import manifest
from impi.lab.evidence.gathered import RankSeen, Wire
from impi.lab.judge.cell_facts import Facts, Failed, failing, listed, vendor_of, who
from impi.lab.nodes.parties import deviations
from impi.lab.nodes.reach import head_of, second_network

_LOOPBACK = "127."
# Programs of the lab and of SSH that are above a rank and start no ranks, whatever their prefix.
_SHELLS = ("python", "bash", "sh", "dash", "sshd", "env")


def launcher(facts: Facts) -> Failed:
    """A launcher of the vendor, from the prefix of the mapped library, is above every rank.

    Where the cell leaves the choice to impirun, it is the process manager if it can be:
    then no launcher is there.
    """
    for rank in facts.seen.ranks:
        # Only a library that moves octets between procs of ours has a launcher.
        # A rank whose libraries the witness did not see has no prefix to compare with.
        if (
            rank.rank is None
            or not _is_backed(vendor_of(facts, rank))
            or not rank.process.libraries
        ):
            continue

        if _prefix_is_unknown(facts, rank, rank.process.libraries):
            continue

        prefixes = {
            _prefix(PurePosixPath(library)) for library in rank.process.libraries
        }
        # Each rank has the lab's own programs above it. They may come from the same
        # prefix as the library, as in an environment that has both Python and an MPI.
        above = [
            exe
            for exe in rank.process.ancestors
            if not PurePosixPath(exe).name.startswith(_SHELLS)
        ]

        has_one = any(
            exe.startswith(f"{prefix}/") for exe in above for prefix in prefixes
        )
        if has_one == _is_managed(facts, rank):
            yield failing(
                f"{'no' if has_one else 'a'} launcher of {vendor_of(facts, rank)} above it",
                f"above it: {listed(rank.process.ancestors) or 'not examined'}",
                "init",
                who(facts, rank),
            )


def _prefix_is_unknown(
    facts: Facts, rank: RankSeen, libraries: Collection[str]
) -> bool:
    """Whether only impi's own library was seen, in a user's compiled program, which is not held."""
    ours = facts.seen.nodes.own_libraries.get(rank.node, "")
    return facts.case.mute and all(library.startswith(ours) for library in libraries)


def _is_managed(facts: Facts, rank: RankSeen) -> bool:
    """Whether impirun is the process manager of a rank's library: of MPICH's kind, on one node."""

    if facts.case.launcher(facts.settings) != "auto":
        return False

    # By the client, which was seen, and not by the rank: a process may say any number.
    nodes = {
        facts.roster.ranks[other].node for other in facts.roster.of_client(rank.client)
    }

    # impirun manages processes on its own node only: a client of several nodes has its mpiexec.
    vendor = vendor_of(facts, rank)
    return len(nodes) == 1 and manifest(vendor).library.launcher == "hydra"


def _prefix(library: PurePosixPath) -> PurePosixPath:
    """The prefix of ``PREFIX/lib/libmpi.so``, or of Debian's ``PREFIX/lib/MACHINE/...``."""
    up = library.parent.parent
    return up.parent if up.name.startswith("lib") else up


def transport(facts: Facts) -> Failed:
    """The ranks of a client on one node share segments of memory, as its library does it.

    A TCP connection between them proves nothing: some libraries connect to learn of each other.
    A user's compiled program is not held for the look, so it may have had one for a moment.
    """
    if facts.case.mute:
        return

    # By node, not by client: shared memory ends at the edge of a node.
    for node in dict.fromkeys(planned.node for planned in facts.roster.ranks):
        ranks = [
            seen
            for seen in facts.seen.ranks
            if seen.node == node and seen.rank is not None
        ]
        if len(ranks) < 2 or not _is_backed(vendor_of(facts, ranks[0])):
            continue

        # One segment must be mapped by two of them: each library also has segments of one process.
        mapped = Counter(segment for seen in ranks for segment in seen.process.shared)
        if not any(count > 1 for count in mapped.values()):
            yield failing(
                f"a segment of {vendor_of(facts, ranks[0])} that the ranks on {node} share",
                "none is mapped by two of them",
                "init",
                who(facts, ranks[0]),
            )


def _is_backed(vendor: str) -> bool:
    """Whether a library of the vendor's moves octets between procs of ours."""
    known = manifest(vendor)
    return known.kind == "backed" and known.has_library


def address(facts: Facts) -> Failed:
    """Hosts have their nodes' addresses, and listen and connect there (IMPI 2.3.5, 2.3.8)."""
    for host in (facts.seen.wire or Wire()).startup.hosts:
        # A proc that is not a planned rank has no node. The item on the number
        # of procs tells of it.
        nodes = {
            facts.roster.ranks[r].node for r in host.ranks if r < facts.roster.size
        }
        # The one host of a client with several nodes is on one of them.
        there = [
            facts.seen.nodes.addresses[node]
            for node in sorted(nodes)
            if node in facts.seen.nodes.addresses
        ]
        blame = (
            facts.client(host.client)
            if host.client < facts.roster.nclients
            else "start-up"
        )
        # Behind a relay the host advertises the relay's address, where it
        # does not listen itself.
        at = _advertised(facts, there)

        found = ""
        if there and host.address not in at:
            found = f"H_IPV6 is {host.address}"
        # Next question: a host must also connect from the address that it
        # names, as far as gateways and second addresses let it.
        elif any(
            not _is_seen_as(came, facts, nodes, host.address) for came in host.came_from
        ):
            found = f"it connects from {listed(host.came_from)}, while its H_IPV6 is {host.address}"
        # Where it listens can be compared only for an address of its own.
        elif at is there:
            found = _listens_elsewhere(facts, host.ranks, host.address, host.port)

        if found:
            yield failing(
                f"the host of ranks {listed(host.ranks)} at {listed(at)}",
                found,
                "mesh",
                blame,
            )


def _advertised(facts: Facts, there: list[str]) -> list[str]:
    """Return the addresses that a host on nodes ``there`` may advertise; a relay has its own.

    The relay is on the server's node.
    """
    if facts.settings.get("reach") != "relay":
        return there

    return [facts.seen.hostport.rpartition(":")[0].strip("[]")]


def _is_seen_as(came: str, facts: Facts, nodes: Collection[str], address: str) -> bool:
    """Whether a host on ``nodes`` that advertises ``address`` may be seen to come from ``came``."""
    last = facts.roster.ranks[-1].client
    # A second address leads nowhere but to peers: hosts of the last client connect from it.
    if "source" in facts.settings and all(
        node.startswith(f"c{last}n") for node in nodes
    ):
        return ip_address(came) in ip_network(second_network(address))

    return came in _seen_as(facts, nodes, address)


def _seen_as(facts: Facts, nodes: Collection[str], address: str) -> list[str]:
    """Return the addresses from which a host comes: its own; behind NAT its gateway's."""

    if facts.settings.get("reach") == "relay":
        # Behind a relay nodes connect from where they are, and advertise where the relay is.
        return [
            facts.seen.nodes.addresses[node]
            for node in sorted(nodes)
            if node in facts.seen.nodes.addresses
        ]

    last = facts.roster.ranks[-1].client
    # Only hosts of the last client are seen by their gateway's address.
    # All others come from their own.
    if facts.settings.get("reach") != "nat" or not all(
        node.startswith(f"c{last}n") for node in nodes
    ):
        return [address]

    return [facts.seen.nodes.addresses[head_of(node)] for node in sorted(nodes)]


def _listens_elsewhere(facts: Facts, ranks: tuple[int, ...], at: str, port: int) -> str:
    """Return where a rank listens on its host's port, if that is at another address."""
    for rank in ranks:
        seen = facts.rank(rank)
        for listens in seen.process.listens if seen is not None else ():
            if listens.endswith(f":{port}") and listens != f"{at}:{port}":
                return f"rank {rank} listens on {listens}"

        # The listener closes once all channels are there, so what the witness saw on the node until
        # then counts. A listener on all addresses is not one on this address ...
        there = _listeners(
            seen.process.node_listens if seen is not None else (), at, port
        )

        # ... but for LAM/MPI, whose agent is known to listen on 0.0.0.0 until
        # the channels are there.
        known = seen is not None and "any-address" in deviations(vendor_of(facts, seen))
        # Nothing on that port was ever seen: the listener was closed before
        # the witness came, so it accuses no host.
        if (
            there
            and f"{at}:{port}" not in there
            and not (known and f"0.0.0.0:{port}" in there)
        ):
            return f"the host of rank {rank} listened on {there[0]}"

    return ""


def _listeners(on_node: Sequence[str], at: str, port: int) -> list[str]:
    """Return the listeners of a node that may be those of a host at an address and port.

    A listener on loopback counts only for a host on loopback: no other client would reach it, so
    the mesh would have failed. Docker's DNS at 127.0.0.11 once had the same port by chance.
    """
    there = [each for each in on_node if each.endswith(f":{port}")]
    return (
        there
        if at.startswith(_LOOPBACK)
        else [each for each in there if not each.startswith(_LOOPBACK)]
    )
