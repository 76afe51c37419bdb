"""Evidence of the case and of the end: checks, traffic, losses, statuses, FINI, nothing left.

Each public function examines one item. It yields what speaks against the item, the cause
first, with the party to blame; an item without a failure is fulfilled. One failure ends a
whole job, so the examiners look for the party that began: by the order on the wire, by the
ends of ranks, or by the clause.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Final

from impi.base.manifests import manifest
from impi.lab.cases import Ends
from impi.lab.dissect import EARLY_CLOSE
from impi.lab.evidence.call_logs import ANY, WORLD_NAME, Call
from impi.lab.evidence.gathered import Answered, CommandSeen, Mismatch, Wire
from impi.lab.evidence.process_snapshot import in_impi, own_frame
from impi.lab.judge.cell_facts import (
    Facts,
    Failed,
    ending,
    failing,
    listed,
    on_wire,
    performed,
    sender,
    status_text,
)

# Log and capture of a node share the kernel's clock; each takes its stamp a little late.
_CLOCK_S: Final = 0.001
# Signals by which launchers end ranks. A rank that ends by another one, such as SIGSEGV, ended by
# itself, and so before those that a launcher took down.
_TAKEN_DOWN: Final = (-signal.SIGHUP, -signal.SIGINT, -signal.SIGKILL, -signal.SIGTERM)
# Signals that no launcher sends: a rank that ends by one has a fault of its own, in any job.
_CRASHES: Final = (
    -signal.SIGPIPE,
    -signal.SIGSEGV,
    -signal.SIGBUS,
    -signal.SIGILL,
    -signal.SIGFPE,
)
# what a client says when the server has cut it off (IMPI 2.3.3)
_CUT_OFF: Final = "Server disconnected"
# what the server prints behind the name of a lost client
_GOES_ON: Final = "the job goes on without"


def checks(facts: Facts) -> Failed:
    """Every rank performed its planned checks, and none failed; no barrier let one go alone."""

    if facts.case.mute:
        return

    # A barrier that lets one rank go alone is seen first: checks behind
    # it may then fail for that reason only.
    yield from _early_leavers(facts)
    for planned in facts.roster.near:
        seen = facts.rank(planned.rank)
        # The first failed check of a rank caused its later ones.
        if seen is not None and seen.checks.failures:
            worst = seen.checks.failures[0]
            yield failing(
                f"{worst['check']}: {worst['expected']}",
                worst["actual"],
                "case",
                facts.roster.label(planned.rank),
            )

    unfinished = [p.rank for p in facts.roster.near if performed(facts, p.rank) is None]
    # Ranks without a last report most often wait for one that stopped. Blame that one.
    if unfinished:
        culprit = _first_to_stop(facts, unfinished)
        yield failing(
            f"{facts.case.checks_of(facts.roster, culprit)} checks of rank {culprit}",
            _how_far(facts, culprit, unfinished),
            "case",
            facts.roster.label(culprit),
        )

    # After failures and unfinished ranks: a count that differs most often follows from them.
    for planned in facts.roster.near:
        wanted, count = (
            facts.case.checks_of(facts.roster, planned.rank),
            performed(facts, planned.rank),
        )
        if count != wanted:
            yield failing(
                f"{wanted} checks of rank {planned.rank}",
                f"{count}",
                "case",
                facts.roster.label(planned.rank),
            )


def _early_leavers(facts: Facts) -> Failed:
    """No rank leaves a barrier before every rank has entered it (IMPI 4.10), by their logs.

    Logs are compared only where the distance of the nodes' clocks is known, which captures tell.
    """

    # Two nodes have two clocks. A lead below their distance and the
    # delay of the stamps proves nothing.
    apart_s = _CLOCK_S + facts.seen.times.clocks_s

    calls: dict[int, dict[int, Call]] = {}
    for seen in facts.seen.ranks if facts.seen.captures else ():
        for call in seen.calls:
            if (
                seen.rank is not None
                and call.comm == WORLD_NAME
                and call.name.lower() == "barrier"
            ):
                calls.setdefault(call.nth, {})[seen.rank] = call

    for nth, each in sorted(calls.items()):
        # IMPI 4.10: no rank may leave before the last one has entered. So the earliest
        # end is held against the latest entry. A call that failed ends early by right.
        last = max(each, key=lambda rank: each[rank].began)
        left = [
            (c.ended, rank)
            for rank, c in each.items()
            if c.ended is not None and not c.error
        ]

        # Without a rank that left, the last one stands for itself, and
        # nothing is yielded.
        first, rank = min(left, default=(each[last].began, last))
        if first + apart_s < each[last].began:
            yield failing(
                f"rank {rank} in MPI_Barrier (collective {nth}) until rank {last} is in it",
                f"it left {1000 * (each[last].began - first):.0f} ms before that",
                "case",
                facts.roster.label(rank),
            )


def _how_far(facts: Facts, rank: int, unfinished: list[int]) -> str:
    seen = facts.rank(rank)
    # A rank that is gone says more by its status than by where it stood.
    if seen is not None and seen.status is not None:
        return f"it ended with {seen.status} before its last check"

    others = listed(r for r in unfinished if r != rank)
    where = (
        f"; it stands in {own_frame(seen.stack)}"
        if seen is not None and seen.stack
        else ""
    )

    return f"it did not reach its last check{f' (nor did {others})' if others else ''}{where}"


def _first_to_stop(facts: Facts, unfinished: list[int]) -> int:
    """Return the rank to blame for a case that did not end.

    The first rank that closed a channel without FINI; else the first that ended, ends by a
    launcher's signal last; in a hang, a rank outside impi's calls while others wait inside; else
    the rank that was silent for longest.
    """

    # From the surest sign to the weakest: who closed a channel, who
    # ended first, who is outside of MPI, who was silent for longest.
    seen = {r: facts.rank(r) for r in unfinished}
    wire = facts.seen.wire or Wire()

    # After a timeout the lab has ended all ranks: the order in which they left says nothing.
    left = set(wire.left_first) & set(unfinished)
    if left and not facts.seen.times.timed_out:
        return min(left)

    # A launcher ends all other ranks after the first one failed. An end by its signal
    # sorts behind one by the rank's own fault, even where the clock says otherwise.
    ended = [
        (s.status in _TAKEN_DOWN, s.ended, r)
        for r, s in seen.items()
        if s and s.ended and s.status is not None
    ]
    if ended:
        return min(ended)[2]

    # In a hang the ranks that wait stand inside impi. One that stands
    # elsewhere does not come to the call in which the others wait.
    outside = [
        r for r, s in seen.items() if s and s.stack and not any(map(in_impi, s.stack))
    ]

    return min(outside or unfinished, key=lambda r: (wire.last_sent.get(r, 0.0), r))


def counter(facts: Facts) -> Failed:
    """In every client of several procs something went through the vendor's own transport."""
    for client in range(facts.roster.nclients if not facts.case.mute else 0):
        # A client that has one rank has no other rank to talk to inside.
        ranks = facts.roster.of_client(client)
        if (
            len(ranks) < 2
            or manifest(facts.roster.vendor(client)).kind != "backed"
            or "abi" in facts.settings
        ):
            # A native MPI counts nothing for impi, and a program in C cannot ask impi
            continue

        # Add up the ranks of the client: which of them sends is up to the library.
        sent = 0
        for rank in ranks:
            seen = facts.rank(rank)
            value = (seen.says.local or {}).get("messages", 0) if seen else 0
            sent += value if isinstance(value, int) else 0

        # Report.done has a barrier, so in every case something must go this way.
        if not sent:
            yield failing(
                "messages through the vendor's own transport",
                "none",
                "case",
                facts.client(client),
            )


@on_wire
def crossing(facts: Facts, wire: Wire) -> Failed:
    """The messages that the case demands crossed between the clients."""
    yield from _mismatched(facts, wire.compared.missing)


@on_wire
def payload(facts: Facts, wire: Wire) -> Failed:
    """Their octets are the ones that follow from the nonce, in the form of the cell."""
    yield from _mismatched(facts, wire.compared.wrong)


@on_wire
def header(facts: Facts, wire: Wire) -> Failed:
    """Their headers have the sender's rank in the communicator and the number of elements."""
    yield from _mismatched(facts, wire.compared.headers)


@on_wire
def extra(facts: Facts, wire: Wire) -> Failed:
    """Nothing else crossed: no message twice, none with an unknown tag or context id."""
    yield from _mismatched(facts, wire.compared.extra, late=True)


def _mismatched(
    facts: Facts, found: Sequence[Mismatch], *, late: bool = False
) -> Failed:
    """Yield the first mismatch of one kind; later ones are most often its consequences.

    The sender is to blame; for a missing answer, the receiver. ``late``: a message after the
    sender's last check belongs to phase ``finalize``.
    """

    if not found:
        return

    # The expected text tells one message. The number says how much more is wrong.
    first, more = found[0], f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    sent_by = facts.rank(first.src) if late else None
    done = sent_by.done if sent_by is not None else None
    # A missing answer is the fault of its receiver, everything else that of the sender.
    yield failing(
        first.expected,
        first.actual + more,
        "finalize" if done is not None and first.time > done else first.phase,
        facts.roster.label(first.dest if first.by_receiver else first.src),
        about=(f"rank {first.src} -> rank {first.dest} ", f" tag={first.tag} "),
    )


@on_wire
def protocol(facts: Facts, wire: Wire) -> Failed:
    """No packet and no command of start-up breaks a clause (limits, credit, answers, order)."""

    if not wire.breaches:
        yield from _unmatched_answers(facts, wire)
        return

    # The first in time: later ones may follow from it.
    first, count = wire.breaches[0], len(wire.breaches)
    more = f" (and {count - 1} more breaches)" if count > 1 else ""
    yield failing(
        f"traffic as IMPI {first.clause} allows",
        f"{first.text}{more}",
        "finalize" if first.rule == EARLY_CLOSE else "case",
        sender(facts, first.client, first.rank),
    )


def _unmatched_answers(facts: Facts, wire: Wire) -> Failed:
    """A SYNCACK means that a receive matches (3.7.1); the receiver's log says when one began."""
    for answer in wire.answered:
        seen = facts.rank(answer.dest)
        # Any receive that may take the message counts, posted or over. The
        # earliest of them gives the receiver every doubt.
        could = [
            call
            for call in (seen.calls if seen is not None else ())
            if _could_take(call, answer)
        ]

        # Without a receive in the log, the log may be cut: it accuses no rank.
        began = min((call.began for call in could), default=answer.time)
        # The earliest receive is later than the answer by more than two clocks
        # can differ: the SYNCACK was sent on arrival and not at the match.
        if began > answer.time + _CLOCK_S + facts.seen.times.clocks_s:
            early = 1000 * (began - answer.time)
            yield failing(
                f"a SYNCACK of rank {answer.dest} once a receive matches (IMPI 3.7.1)",
                f"one for tag {answer.tag} of rank {answer.src}, {early:.0f} ms before any receive for it",
                "case",
                facts.roster.label(answer.dest),
                about=(f"rank {answer.dest} -> rank {answer.src} ", "SYNCACK"),
            )


def _could_take(call: Call, answer: Answered) -> bool:
    return (
        call.receives
        and call.source in (answer.src, ANY)
        and call.tag in (answer.tag, ANY)
    )


def silence(facts: Facts) -> Failed:
    """No single client leaves all its channels without FINI (IMPI 3.8).

    That client is to blame, whoever notices first. A job that is cut off lacks more than FINIs.
    """
    if not facts.ends.abrupt:
        yield from _leaving_alone(facts)


@on_wire
def _leaving_alone(facts: Facts, wire: Wire) -> Failed:
    yield from _early_closes(facts, wire)
    mute = {channel.partition(" to ")[0] for channel in unfinished(facts, wire)}
    # Host numbers follow the order of the H labels (IMPI 2.3.8).
    layout = {f"host {i}": host.client for i, host in enumerate(wire.startup.hosts)}
    clients = {layout.get(host) for host in mute}

    whole = [host for host, client in layout.items() if {client} == clients]
    # All channels of one client: it left. One channel alone is left to the item end.fini.
    if (
        mute
        and len(clients) == 1
        and None not in clients
        and sorted(mute) == sorted(whole)
    ):
        (client,) = clients
        yield failing(
            "FINI on every channel, both ways",
            f"none from {unfinished(facts, wire)[0]}",
            "finalize",
            sender(facts, client, None),
        )


def _early_closes(facts: Facts, wire: Wire) -> Failed:
    """A host that ends well closes a channel only after the FINI of the other host (IMPI 3.8)."""
    for channel in wire.closed_early:
        host = wire.startup.hosts[int(channel.split()[1])]

        # A host that failed closes its channels as it can: statuses tell that. Only
        # a host whose ranks all end with 0 claims that it ended in good order.
        ended = [facts.rank(rank) for rank in host.ranks if rank < facts.roster.size]
        if ended and all(seen is not None and seen.status == 0 for seen in ended):
            yield failing(
                "a channel that is closed after the FINI of both sides",
                f"closed before the other's: {channel}",
                "finalize",
                sender(facts, host.client, None),
            )


def status(facts: Facts) -> Failed:
    """Every rank's wait status, every impirun and the server are as the case says."""

    ends = facts.ends

    # Sort by the time of the end: one rank that fails takes the others
    # down, and only the first one is to blame.
    found: list[tuple[float, int, int, int | None]] = []
    for planned in facts.roster.near:
        seen = facts.rank(planned.rank)

        wanted, status = (
            ends.statuses.get(planned.rank, 0),
            seen.status if seen else None,
        )
        # A failing client may take other clients' ranks down, wrappers and all, so that no status
        # is recorded. The sweep then shows that none is left.
        if planned.client == ends.lost:
            if status == 0:
                found.append((0.0, planned.rank, -9, status))
        elif status != wanted and (
            ends.well or planned.rank in ends.statuses or status in _CRASHES
        ):
            ended = seen.ended if seen is not None and status is not None else None
            found.append((ended or float("inf"), planned.rank, wanted, status))

    # the rank that ended first took the others down
    for _, rank, wanted, status in sorted(found, key=lambda f: f[:2]):
        yield failing(
            f"rank {rank} ends with {wanted}",
            status_text(status),
            "finalize",
            facts.roster.label(rank),
        )

    yield from _client_commands(facts, ends)
    yield from _server_command(facts, ends)
    yield from printed(facts)


def _client_commands(facts: Facts, ends: Ends) -> Failed:
    for client, command in enumerate(facts.seen.clients):
        # These must fail: the one that the case makes fail, a lost one, and
        # all of a job that is cut off or that has a fault.
        must_fail = (
            client in (ends.failing_client, ends.lost) or ends.abrupt or ends.everyone
        )
        # None is a command that the lab had to end. It ended neither well
        # nor with an error.
        good = command.code is not None and (
            must_fail or not ends.well or command.code == 0
        )

        codes = ends.codes if client == ends.failing_client else ()
        if (
            not good
            or (must_fail and command.code == 0)
            or (codes and command.code not in codes)
        ):
            wanted = " or ".join(map(str, codes)) or ("an error" if must_fail else "0")
            yield failing(
                f"impirun of client {client} ends with {wanted}",
                ending(command),
                "fini",
                facts.client(client),
            )


def _who_misled_server(facts: Facts) -> str:
    """Return the client that makes the server end wrongly by its FINI, or by none; else the server.

    A client that fails sends no FINI; one that ends with 0 sends it (IMPI 2.3.7).
    """

    # The server's own end follows from the FINIs that it got
    # (IMPI 2.3.7), so a client that sends a wrong one misleads it.
    reached = facts.seen.wire.startup.reached if facts.seen.wire is not None else {}

    failing = facts.ends.failing_client
    if failing is not None and reached.get(failing) == "fini":
        return facts.client(failing)

    # The server is not to blame for its error if one client ended with
    # 0 and never said FINI.
    silent = [
        c
        for c, step in reached.items()
        if step == "done" and c < len(facts.seen.clients)
    ]
    ended_well = [c for c in silent if facts.seen.clients[c].code == 0]

    return facts.client(ended_well[0]) if len(ended_well) == 1 else "server"


def _server_command(facts: Facts, ends: Ends) -> Failed:
    server = facts.seen.server
    # A server that ends as it must also has to name the client, so that
    # a user can find it.
    code = server.code if server is not None else None
    told = _errors(server) if server is not None else []

    expected = ""
    if code is None or (code == 0) != ends.well:
        expected = f"the server ends with {'0' if ends.well else 'an error'}"
    elif not ends.well and not _names(
        told, range(facts.roster.nclients) if ends.everyone else [ends.failing_client]
    ):
        who = "a client" if ends.everyone else f"client {ends.failing_client}"
        yield failing(
            f"the server names {who}",
            " ".join(told)[-200:] or "it names no client",
            "fini",
            "server",
        )

    if expected:
        yield failing(
            expected,
            ending(server) if server is not None else "it was not started",
            "fini",
            _who_misled_server(facts),
        )


def _names(lines: Sequence[str], clients: Sequence[int | None]) -> bool:
    return any(f"client {client}" in line for client in clients for line in lines)


def _errors(command: CommandSeen) -> list[str]:
    """Return the errors that it printed, without its reports of joins and ends."""
    return [line for line in command.stderr.splitlines() if line.startswith("Error")]


@on_wire
def fini(facts: Facts, wire: Wire) -> Failed:
    """FINI on every channel both ways (IMPI 3.8), and from every client to the server (2.3.7)."""
    ends = facts.ends
    # A job that is cut off sends no FINI: items of the fault judge it.
    if (mute := unfinished(facts, wire)) and not ends.abrupt:
        yield failing(
            "FINI on every channel, both ways",
            f"none from {mute[0]}",
            "finalize",
            mute[0],
        )
        return

    for client in range(facts.roster.nclients):
        said = wire.startup.reached.get(client) == "fini"

        # A client sends FINI after all its procs have exited successfully
        # (IMPI 2.3.7), so one that fails must not send it.
        must_not = client in (ends.failing_client, ends.lost) or ends.abrupt
        # A failing client must send none. The others may send none, too: the server cuts them off.
        if said == must_not and (said or ends.failing_client is None):
            yield failing(
                f"{'no ' if must_not else ''}FINI of client {client} to the server",
                "it was sent" if said else "none",
                "fini",
                facts.client(client),
            )


def unfinished(facts: Facts, wire: Wire) -> list[str]:
    """Return the channels on which a FINI is missing; a lost client owes none, and gets none."""
    # A lost client is gone in the middle of its traffic, and a job that
    # survives does not wait for its FINI.
    gone = {
        f"host {i}"
        for i, host in enumerate(wire.startup.hosts)
        if host.client == facts.ends.lost
    }
    return [
        channel for channel in wire.unfinished if gone.isdisjoint(channel.split(" to "))
    ]


def refused(facts: Facts) -> Failed:
    """The server refuses a client that does not prove that it belongs to the job (IMPI 2.3.3)."""

    ends = facts.ends
    if ends.refused is None:
        return

    if ends.abrupt:
        yield from _unbegun(facts)
        return

    said = facts.seen.server.stderr if facts.seen.server is not None else ""

    # A client that came as far as DONE was let in, whatever the server printed of it.
    reached = (facts.seen.wire or Wire()).startup.reached.get(ends.refused)
    if reached in ("done", "fini") or ends.why not in said:
        yield failing(
            f"the server refuses client {ends.refused}: {ends.why}",
            f"it came as far as {reached}"
            if reached in ("done", "fini")
            else f"it says {said.strip()[:200]!r}",
            "auth",
            "server",
        )

    for i, command in enumerate(facts.seen.clients):
        # The others wait for the right client until the cell is ended (IMPI 2.3.3, 2.3.4).
        good = (
            command.code not in (None, 0) and _CUT_OFF in command.stderr
            if i == ends.refused
            else command.code is None
        )
        if not good:
            yield failing(
                f"client {i} {f'ends with: {_CUT_OFF}' if i == ends.refused else 'waits for the right client'}",
                ending(command),
                "auth",
                facts.client(i),
            )


def _unbegun(facts: Facts) -> Failed:
    """Every command of a job that cannot begin ends with an error, and says why."""
    ends = facts.ends
    for command in (*facts.seen.clients, facts.seen.server):
        if command is None:
            continue

        # Started by one command, a client leaves the words to the server, which has said them.
        is_told = facts.is_by_one and command.who != "server" and not command.stderr
        is_said = is_told or ends.why in command.stderr
        if command.code not in ends.codes or not is_said:
            yield failing(
                f"{command.who} ends with {listed(ends.codes)}: {ends.why}",
                f"{ending(command)}{'' if is_said else '; it does not say so'}",
                "init",
                command.who,
            )


def leftovers(facts: Facts) -> Failed:
    """No process, segment or port is left."""

    commands = [c for c in (*facts.seen.clients, facts.seen.server) if c is not None]
    # Two sources: what the starters of the commands could not end, and
    # the sweep of nodes.
    found = [f"{c.who}: {left}" for c in commands for left in c.leftovers]

    found += [left for left in facts.seen.lab.leftovers if not _is_litter(facts, left)]
    if found:
        yield failing("nothing left", found[0], "down", found[0].split(":", 1)[0])


def _is_litter(facts: Facts, finding: str) -> bool:
    """Whether a vendor's mpiexec is known to leave this file when a signal ends it.

    A client that is refused ends its mpiexec, and the lab ends those that wait for another one.
    """

    node, _, path = finding.partition(": file ")

    # A job that ends well must leave nothing at all. Only an end by a
    # signal excuses a file, and in the fault matrix nothing does.
    ends = facts.ends
    if (
        not path
        or facts.hit is not None
        or (ends.well and ends.refused is None and ends.lost is None)
    ):
        return False

    here = [planned for planned in facts.roster.ranks if planned.node == node]
    # In a job with a loss, only the lost client's launcher was ended by a signal.
    vendors = {
        planned.vendor for planned in here if ends.lost in (None, planned.client)
    }

    return any(
        fnmatch(path, glob)
        for vendor in vendors
        for glob in manifest(vendor).leaves.get("files", ())
    )


def secret(facts: Facts) -> Failed:
    """No command has printed the key of the job (IMPI 2.3.3)."""
    for who in facts.seen.told_key:
        kind, _, number = who.partition(" ")
        yield failing(
            "no output with the key",
            f"{who} has printed it",
            "auth",
            facts.client(int(number)) if kind == "client" else who,
        )


@on_wire
def sealed(facts: Facts, wire: Wire) -> Failed:
    """All that crosses between nodes is in TLS, but nonces and proofs at the beginning."""
    nodes = {address: name for name, address in facts.seen.nodes.addresses.items()}
    for each in wire.tls.in_clear:
        who = nodes.get(each.sender, "server")
        yield failing("connections between nodes in TLS", each.text, "mesh", who)

    # Each client with the server, and each two ranks of two clients
    ranks = range(facts.roster.size)
    pairs = sum(facts.roster.remote(a, b) for a in ranks for b in range(a))
    wanted = facts.roster.nclients + pairs
    if wire.tls.connections < wanted:
        yield failing(
            f"{wanted} connections between nodes",
            f"{wire.tls.connections}",
            "mesh",
            "wire",
        )


@on_wire
def capture(_facts: Facts, wire: Wire) -> Failed:
    """The captures have both canaries and no holes."""
    if wire.untrusted:
        yield failing("captures without holes", wire.untrusted[0], "down", "lab")


@on_wire
def told(facts: Facts, wire: Wire) -> Failed:
    """The server tells every client that is left of the declared loss, and of no other."""
    lost = facts.ends.lost
    for client in range(facts.roster.nclients):
        # The lost client itself is told nothing: it is not there.
        wanted = () if lost in (None, client) else (lost,)

        seen = wire.startup.losses.get(client, ())
        if seen != wanted:
            yield failing(
                f"the server tells client {client} of {_losses(wanted)}",
                f"of {_losses(seen)}",
                "case",
                facts.client(seen[0])
                if seen and seen[0] in range(facts.roster.nclients)
                else "server",
            )


def _losses(clients: tuple[int | None, ...]) -> str:
    return f"the loss of client {listed(clients)}" if clients else "no loss"


def printed(facts: Facts) -> Failed:
    """The server prints that the declared client is lost, and no other."""

    said = (
        facts.seen.server.stderr.splitlines() if facts.seen.server is not None else []
    )
    lines = [line for line in said if _GOES_ON in line]
    seen = tuple(
        # One line for each loss. A second client in these lines is one that
        # was given up wrongly.
        c
        for c in range(facts.roster.nclients)
        if any(f"client {c}" in line for line in lines)
    )

    wanted = () if facts.ends.lost is None else (facts.ends.lost,)
    if seen != wanted:
        yield failing(
            f"the server prints {_losses(wanted)}",
            f"it prints {_losses(seen)}",
            "fini",
            "server",
        )
