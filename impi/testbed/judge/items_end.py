"""Evidence of the case and of the end: checks, traffic, wait statuses, FINI, nothing left."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from typing import Final

from impi.dissect import EARLY_CLOSE
from impi.manifests import manifest
from impi.testbed.cases import Ends
from impi.testbed.evidence.call_logs import ANY, WORLD_NAME, Call
from impi.testbed.evidence.evidence import Answered, CommandSeen, Mismatch, Wire
from impi.testbed.evidence.stack_frames import in_impi, own_frame
from impi.testbed.judge.cell_facts import Facts, Failed, Item, ending, listed, performed, sender, status_text, wire_of
from impi.testbed.judge.items_loss import printed

_CLOCK_S: Final = 0.001
"""Log and capture of a node have the clock of one kernel; each takes its stamp a little late."""
_TAKEN_DOWN: Final = (-signal.SIGHUP, -signal.SIGINT, -signal.SIGKILL, -signal.SIGTERM)
"""How ranks end that a launcher ends; by others, such as SIGSEGV, they end by themselves."""
_CUT_OFF: Final = "Server disconnected"
"""What a client says that the server has cut off (IMPI 2.3.3)."""


def checks(facts: Facts, name: str) -> Failed:
    """Every rank performed its planned checks, and none failed; no barrier let one go alone."""
    yield from _early_leavers(facts, name)
    for planned in facts.roster.near:
        seen = facts.rank(planned.rank)
        if seen is not None and seen.failures:
            worst = seen.failures[0]
            expected, actual = f"{worst['check']}: {worst['expected']}", worst["actual"]
            blame = facts.roster.label(planned.rank)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="case", blame=blame)
    unfinished = [p.rank for p in facts.roster.near if performed(facts, p.rank) is None]
    if unfinished:
        culprit = _first_to_stop(facts, unfinished)
        expected = f"{facts.case.checks_of(facts.roster, culprit)} checks of rank {culprit}"
        actual, blame = _how_far(facts, culprit, unfinished), facts.roster.label(culprit)
        yield Item(name=name, ok=False, expected=expected, actual=actual, phase="case", blame=blame)
    for planned in facts.roster.near:
        wanted, count = facts.case.checks_of(facts.roster, planned.rank), performed(facts, planned.rank)
        if count != wanted:
            expected, actual = f"{wanted} checks of rank {planned.rank}", f"{count}"
            blame = facts.roster.label(planned.rank)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="case", blame=blame)


def _early_leavers(facts: Facts, name: str) -> Failed:
    """Nobody leaves a barrier of all that another has not entered (IMPI 4.10), by their logs.

    Logs are compared where it is known how far clocks are apart: where there are captures, too.
    """
    apart_s = _CLOCK_S + facts.seen.clocks_s
    calls: dict[int, dict[int, Call]] = {}
    for seen in facts.seen.ranks if facts.seen.captures else ():
        for call in seen.calls:
            if seen.rank is not None and call.comm == WORLD_NAME and call.name.lower() == "barrier":
                calls.setdefault(call.nth, {})[seen.rank] = call
    for nth, each in sorted(calls.items()):
        last = max(each, key=lambda rank: each[rank].began)
        left = [(c.ended, rank) for rank, c in each.items() if c.ended is not None and not c.error]
        first, rank = min(left, default=(each[last].began, last))
        if first + apart_s < each[last].began:
            yield Item(
                name=name,
                ok=False,
                expected=f"rank {rank} in MPI_Barrier (collective {nth}) until rank {last} is in it",
                actual=f"it left {1000 * (each[last].began - first):.0f} ms before that",
                phase="case",
                blame=facts.roster.label(rank),
            )


def _how_far(facts: Facts, rank: int, unfinished: list[int]) -> str:
    seen = facts.rank(rank)
    if seen is not None and seen.status is not None:
        return f"it ended with {seen.status} before its last check"
    others = listed(r for r in unfinished if r != rank)
    where = f"; it stands in {own_frame(seen.stack)}" if seen is not None and seen.stack else ""
    return f"it did not come to its last check{f' (nor did {others})' if others else ''}{where}"


def _first_to_stop(facts: Facts, unfinished: list[int]) -> int:
    """Return the rank to blame for a case that did not end.

    That is the first rank to close a channel without FINI, or else to end, by a launcher's signal
    only if all have; in a hang, a rank outside impi's calls while others wait inside; else the rank
    that was silent for longest.
    """
    seen = {r: facts.rank(r) for r in unfinished}
    wire = facts.seen.wire or Wire()
    left = set(wire.left_first) & set(unfinished)
    if left and not facts.seen.timed_out:
        return min(left)
    ended = [(s.status in _TAKEN_DOWN, s.ended, r) for r, s in seen.items() if s and s.ended and s.status is not None]
    if ended:
        return min(ended)[2]
    outside = [r for r, s in seen.items() if s and s.stack and not any(map(in_impi, s.stack))]
    return min(outside or unfinished, key=lambda r: (wire.last_sent.get(r, 0.0), r))


def counter(facts: Facts, name: str) -> Failed:
    """In every client of several procs something went through the vendor's own transport."""
    for client in range(facts.roster.nclients):
        ranks = facts.roster.of_client(client)
        if len(ranks) < 2 or manifest(facts.roster.vendor(client)).kind != "backed" or "abi" in facts.settings:
            continue  # what an MPI of its own does inside is not impi's to count, and C cannot ask impi
        sent = 0
        for rank in ranks:
            seen = facts.rank(rank)
            value = (seen.local or {}).get("messages", 0) if seen else 0
            sent += value if isinstance(value, int) else 0
        if not sent:
            expected, actual = "messages through the vendor's own transport", "none"
            blame = facts.client(client)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="case", blame=blame)


def crossing(facts: Facts, name: str) -> Failed:
    """The messages that the case demands crossed between the clients."""
    yield from _of_wire(facts, name, lambda wire: wire.missing)


def payload(facts: Facts, name: str) -> Failed:
    """Their octets are the ones that follow from the nonce, in the form of the cell."""
    yield from _of_wire(facts, name, lambda wire: wire.wrong)


def header(facts: Facts, name: str) -> Failed:
    """Their headers have the sender's rank in the communicator and the number of elements."""
    yield from _of_wire(facts, name, lambda wire: wire.headers)


def extra(facts: Facts, name: str) -> Failed:
    """Nothing else crossed: no message twice, none with an unknown tag or context id."""
    yield from _of_wire(facts, name, lambda wire: wire.extra)


def _of_wire(facts: Facts, name: str, which: Callable[[Wire], Sequence[Mismatch]]) -> Failed:
    """Yield the first mismatch of one kind.

    Who sent that message, or did not, is to blame; for a missing answer its receiver.
    """
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
        elif found := which(item):
            first, more = found[0], f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            sent_by = facts.rank(first.src) if name == "traffic.extra" else None
            done = sent_by.done if sent_by is not None else None
            yield Item(
                name=name,
                ok=False,
                expected=first.expected,
                actual=first.actual + more,
                phase="finalize" if done is not None and first.time > done else first.phase,
                blame=facts.roster.label(first.dest if first.by_receiver else first.src),
                about=(f"rank {first.src} -> rank {first.dest} ", f" tag={first.tag} "),
            )


def protocol(facts: Facts, name: str) -> Failed:
    """No packet and no command of start-up breaks a clause (limits, credit, answers, order)."""
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
        elif item.breaches:
            first, count = item.breaches[0], len(item.breaches)
            more = f" (and {count - 1} more breaches)" if count > 1 else ""
            expected, actual = f"traffic as IMPI {first.clause} allows", f"{first.text}{more}"
            blame = sender(facts, first.client, first.rank)
            phase = "finalize" if first.rule == EARLY_CLOSE else "case"
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase=phase, blame=blame)
        else:
            yield from _unmatched_answers(facts, name, item)


def _unmatched_answers(facts: Facts, name: str, wire: Wire) -> Failed:
    """A SYNCACK means that a receive matches; the receiver's log says when it began one (3.7.1)."""
    for answer in wire.answered:
        seen = facts.rank(answer.dest)
        could = [call for call in (seen.calls if seen is not None else ()) if _could_take(call, answer)]
        began = min((call.began for call in could), default=answer.time)
        if began > answer.time + _CLOCK_S + facts.seen.clocks_s:
            early = 1000 * (began - answer.time)
            yield Item(
                name=name,
                ok=False,
                expected=f"a SYNCACK of rank {answer.dest} once a receive matches (IMPI 3.7.1)",
                actual=f"one for tag {answer.tag} of rank {answer.src}, {early:.0f} ms before any receive for it",
                phase="case",
                blame=facts.roster.label(answer.dest),
                about=(f"rank {answer.dest} -> rank {answer.src} ", "SYNCACK"),
            )


def _could_take(call: Call, answer: Answered) -> bool:
    return call.receives and call.source in (answer.src, ANY) and call.tag in (answer.tag, ANY)


def silence(facts: Facts, name: str) -> Failed:
    """No client alone leaves all its channels to others without FINI (IMPI 3.8).

    That is its own fault, whoever notices first; a job that is cut off lacks more than that.
    """
    if facts.ends.abrupt:
        return
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
            return
        yield from _early_closes(facts, name, item)
        mute = {channel.partition(" to ")[0] for channel in unfinished(facts, item)}
        layout = {f"host {i}": host.client for i, host in enumerate(item.hosts)}
        clients = {layout.get(host) for host in mute}
        whole = [host for host, client in layout.items() if {client} == clients]
        if mute and len(clients) == 1 and None not in clients and sorted(mute) == sorted(whole):
            (client,) = clients
            expected, actual = "FINI on every channel, both ways", f"none from {unfinished(facts, item)[0]}"
            blame = sender(facts, client, None)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="finalize", blame=blame)


def _early_closes(facts: Facts, name: str, wire: Wire) -> Failed:
    """A host that ends well closes its channel after the other's FINI only (IMPI 3.8)."""
    for channel in wire.closed_early:
        host = wire.hosts[int(channel.split()[1])]
        ended = [facts.rank(rank) for rank in host.ranks if rank < facts.roster.size]
        if ended and all(seen is not None and seen.status == 0 for seen in ended):
            yield Item(
                name=name,
                ok=False,
                expected="a channel that is closed after the FINI of both sides",
                actual=f"closed before the other's: {channel}",
                phase="finalize",
                blame=sender(facts, host.client, None),
            )


def status(facts: Facts, name: str) -> Failed:
    """Every rank's wait status, every impirun and the server are as the case says."""
    ends = facts.ends
    found: list[tuple[float, int, int, int | None]] = []
    for planned in facts.roster.near:
        seen = facts.rank(planned.rank)
        wanted, status = ends.statuses.get(planned.rank, 0), seen.status if seen else None
        # A failing client may take down others, wrappers and all; the sweep then finds none left.
        if planned.client == ends.lost:
            if status == 0:
                found.append((0.0, planned.rank, -9, status))
        elif status != wanted and (ends.well or planned.rank in ends.statuses):
            ended = seen.ended if seen is not None and status is not None else None
            found.append((ended or float("inf"), planned.rank, wanted, status))
    for _, rank, wanted, status in sorted(found, key=lambda f: f[:2]):  # who ended first took the others down
        expected, blame = f"rank {rank} ends with {wanted}", facts.roster.label(rank)
        yield Item(name=name, ok=False, expected=expected, actual=status_text(status), phase="finalize", blame=blame)
    yield from _client_commands(facts, name, ends)
    yield from _server_command(facts, name, ends)
    yield from printed(facts, name)


def _client_commands(facts: Facts, name: str, ends: Ends) -> Failed:
    for client, command in enumerate(facts.seen.clients):
        must_fail = client in (ends.failing_client, ends.lost) or ends.abrupt or ends.everyone
        good = command.code is not None and (must_fail or not ends.well or command.code == 0)
        codes = ends.codes if client == ends.failing_client else ()
        if not good or (must_fail and command.code == 0) or (codes and command.code not in codes):
            wanted = " or ".join(map(str, codes)) or ("an error" if must_fail else "0")
            expected = f"impirun of client {client} ends with {wanted}"
            blame = facts.client(client)
            yield Item(name=name, ok=False, expected=expected, actual=ending(command), phase="fini", blame=blame)


def _misleads(facts: Facts) -> str:
    """The client whose FINI, or whose lack of one, makes the server end wrongly; else the server.

    A client that fails sends none, and one that ends with 0 does (IMPI 2.3.7).
    """
    reached = facts.seen.wire.reached if facts.seen.wire is not None else {}
    failing = facts.ends.failing_client
    if failing is not None and reached.get(failing) == "fini":
        return facts.client(failing)
    silent = [c for c, step in reached.items() if step == "done" and c < len(facts.seen.clients)]
    ended_well = [c for c in silent if facts.seen.clients[c].code == 0]
    return facts.client(ended_well[0]) if len(ended_well) == 1 else "server"


def _server_command(facts: Facts, name: str, ends: Ends) -> Failed:
    server = facts.seen.server
    code = server.code if server is not None else None
    told = _errors(server) if server is not None else []
    expected = ""
    if code is None or (code == 0) != ends.well:
        expected = f"the server ends with {'0' if ends.well else 'an error'}"
    elif not ends.well and not _names(told, range(facts.roster.nclients) if ends.everyone else [ends.failing_client]):
        who = "a client" if ends.everyone else f"client {ends.failing_client}"
        actual = " ".join(told)[-200:] or "it names nobody"
        yield Item(name=name, ok=False, expected=f"the server names {who}", actual=actual, phase="fini", blame="server")
    if expected:
        actual = ending(server) if server is not None else "it was not started"
        yield Item(name=name, ok=False, expected=expected, actual=actual, phase="fini", blame=_misleads(facts))


def _names(lines: Sequence[str], clients: Sequence[int | None]) -> bool:
    """Whether one of the clients is named there."""
    return any(f"client {client}" in line for client in clients for line in lines)


def _errors(command: CommandSeen) -> list[str]:
    """Return the errors that it printed, without its reports of joins and ends."""
    return [line for line in command.stderr.splitlines() if line.startswith("Error")]


def fini(facts: Facts, name: str) -> Failed:
    """FINI on every channel both ways (IMPI 3.8), and from every client to the server (2.3.7)."""
    ends = facts.ends
    failing = ends.failing_client
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
        elif (mute := unfinished(facts, item)) and not ends.abrupt:
            expected, actual = "FINI on every channel, both ways", f"none from {mute[0]}"
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="finalize", blame=mute[0])
        else:
            for client in range(facts.roster.nclients):
                said = item.reached.get(client) == "fini"
                must_not = client in (failing, ends.lost) or ends.abrupt
                if said == must_not and (said or failing is None):
                    expected = f"{'no ' if must_not else ''}FINI of client {client} to the server"
                    actual, blame = "it was sent" if said else "none", facts.client(client)
                    yield Item(name=name, ok=False, expected=expected, actual=actual, phase="fini", blame=blame)


def unfinished(facts: Facts, wire: Wire) -> list[str]:
    """Return the channels on which a FINI is due and missing: none is due to or from the lost."""
    gone = {f"host {i}" for i, host in enumerate(wire.hosts) if host.client == facts.ends.lost}
    return [channel for channel in wire.unfinished if gone.isdisjoint(channel.split(" to "))]


def refused(facts: Facts, name: str) -> Failed:
    """The server refuses a client that does not prove that it belongs to the job (IMPI 2.3.3)."""
    ends = facts.ends
    if ends.refused is None:
        return
    said = facts.seen.server.stderr if facts.seen.server is not None else ""
    reached = (facts.seen.wire or Wire()).reached.get(ends.refused)
    if reached in ("done", "fini") or ends.why not in said:
        actual = f"it came as far as {reached}" if reached in ("done", "fini") else f"it says {said.strip()[:200]!r}"
        expected = f"the server refuses client {ends.refused}: {ends.why}"
        yield Item(name=name, ok=False, expected=expected, actual=actual, phase="auth", blame="server")
    for i, command in enumerate(facts.seen.clients):
        # The others wait for the right client until the cell is ended (IMPI 2.3.3, 2.3.4).
        good = (
            command.code not in (None, 0) and _CUT_OFF in command.stderr if i == ends.refused else command.code is None
        )
        if not good:
            expected = f"client {i} {f'ends with: {_CUT_OFF}' if i == ends.refused else 'waits for the right client'}"
            actual, blame = ending(command), facts.client(i)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="auth", blame=blame)


def leftovers(facts: Facts, name: str) -> Failed:
    """No process, segment or port is left."""
    commands = [c for c in (*facts.seen.clients, facts.seen.server) if c is not None]
    found = [f"{c.who}: {left}" for c in commands for left in c.leftovers]
    found += [left for left in facts.seen.leftovers if not _is_litter(facts, left)]
    if found:
        blame = found[0].split(":", 1)[0]
        yield Item(name=name, ok=False, expected="nothing left", actual=found[0], phase="down", blame=blame)


def _is_litter(facts: Facts, finding: str) -> bool:
    """Whether a vendor's mpiexec is known to leave this file, and was ended by a signal.

    A client that is refused ends its mpiexec, and the lab ends those that wait for another one.
    """
    node, _, path = finding.partition(": file ")
    ends = facts.ends
    if not path or facts.hit is not None or (ends.well and ends.refused is None and ends.lost is None):
        return False
    here = [planned for planned in facts.roster.ranks if planned.node == node]
    vendors = {planned.vendor for planned in here if ends.lost in (None, planned.client)}
    return any(fnmatch(path, glob) for vendor in vendors for glob in manifest(vendor).litter)


def secret(facts: Facts, name: str) -> Failed:
    """No command has printed the key of the job (IMPI 2.3.3)."""
    for who in facts.seen.told_key:
        kind, _, number = who.partition(" ")
        blame = facts.client(int(number)) if kind == "client" else who
        yield Item(
            name=name,
            ok=False,
            expected="no output with the key",
            actual=f"{who} has printed it",
            phase="auth",
            blame=blame,
        )


def capture(facts: Facts, name: str) -> Failed:
    """The captures have both canaries and no holes."""
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
        elif item.untrusted:
            expected, actual = "captures without holes", item.untrusted[0]
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="down", blame="lab")
