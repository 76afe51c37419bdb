"""Evidence of the case and of the end: checks, traffic, wait statuses, FINI, nothing left."""

from __future__ import annotations

from impi.testbed.evidence.evidence import CommandSeen
from impi.testbed.evidence.stack_frames import in_impi, own_frame
from impi.testbed.judge.cell_facts import Facts, Failed, Item, ending, listed, performed, status_text, wire_of


def checks(facts: Facts, name: str) -> Failed:
    """Every rank performed its planned checks, and none failed."""
    for planned in facts.roster.ranks:
        seen = facts.rank(planned.rank)
        if seen is not None and seen.failures:
            worst = seen.failures[0]
            expected, actual = f"{worst['check']}: {worst['expected']}", worst["actual"]
            blame = facts.roster.label(planned.rank)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="case", blame=blame)
    unfinished = [p.rank for p in facts.roster.ranks if performed(facts, p.rank) is None]
    if unfinished:
        culprit = _first_to_stop(facts, unfinished)
        expected = f"{facts.case.checks_of(facts.roster, culprit)} checks of rank {culprit}"
        actual, blame = _how_far(facts, culprit, unfinished), facts.roster.label(culprit)
        yield Item(name=name, ok=False, expected=expected, actual=actual, phase="case", blame=blame)
    for planned in facts.roster.ranks:
        wanted, count = facts.case.checks_of(facts.roster, planned.rank), performed(facts, planned.rank)
        if count != wanted:
            expected, actual = f"{wanted} checks of rank {planned.rank}", f"{count}"
            blame = facts.roster.label(planned.rank)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="case", blame=blame)


def _how_far(facts: Facts, rank: int, unfinished: list[int]) -> str:
    seen = facts.rank(rank)
    if seen is not None and seen.status is not None:
        return f"it ended with {seen.status} before its last check"
    others = listed(r for r in unfinished if r != rank)
    where = f"; it stands in {own_frame(seen.stack)}" if seen is not None and seen.stack else ""
    return f"it did not come to its last check{f' (nor did {others})' if others else ''}{where}"


def _first_to_stop(facts: Facts, unfinished: list[int]) -> int:
    """Return the rank to blame for a case that did not end.

    That is the first rank to end; in a hang, a rank outside impi's calls while others wait inside;
    else the rank that was silent for longest.
    """
    seen = {r: facts.rank(r) for r in unfinished}
    ended = [(s.ended, r) for r, s in seen.items() if s and s.ended and s.status is not None]
    if ended:
        return min(ended)[1]
    outside = [r for r, s in seen.items() if s and s.stack and not any(map(in_impi, s.stack))]
    last = facts.seen.wire.last_sent if facts.seen.wire else {}
    return min(outside or unfinished, key=lambda r: (last.get(r, 0.0), r))


def counter(facts: Facts, name: str) -> Failed:
    """In every client of several procs something went through the vendor's own transport."""
    for client in range(facts.roster.nclients):
        ranks = facts.roster.of_client(client)
        if len(ranks) < 2:
            continue
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
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
        elif item.missing:
            expected, actual = item.missing[0].rsplit("; seen: ", 1)
            more = f" (and {len(item.missing) - 1} more demands)" if len(item.missing) > 1 else ""
            yield Item(
                name=name, ok=False, expected=expected, actual=f"{actual} crossed{more}", phase="case", blame="wire"
            )


def payload(facts: Facts, name: str) -> Failed:
    """Their octets are the ones that follow from the nonce, as external32."""
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
        elif item.wrong:
            expected, actual = item.wrong[0].rsplit(", seen ", 1)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="case", blame="wire")


def protocol(facts: Facts, name: str) -> Failed:
    """Everything on the channels and in start-up can be decoded by the clauses."""
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
        elif item.violations:
            expected, actual = "octets that IMPI 0.0 allows", item.violations[0]
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="case", blame="wire")


def status(facts: Facts, name: str) -> Failed:
    """Every rank's wait status, every impirun and the server are as the case says."""
    ends = facts.case.ends(facts.roster)
    found: list[tuple[float, int, int, int | None]] = []
    for planned in facts.roster.ranks:
        seen = facts.rank(planned.rank)
        wanted, status = ends.statuses.get(planned.rank, 0), seen.status if seen else None
        # A failing client may take down others, wrappers and all; the sweep then finds none left.
        if status != wanted and (ends.failing_client is None or planned.rank in ends.statuses):
            ended = seen.ended if seen is not None and status is not None else None
            found.append((ended or float("inf"), planned.rank, wanted, status))
    for _, rank, wanted, status in sorted(found, key=lambda f: f[:2]):  # who ended first took the others down
        expected, blame = f"rank {rank} ends with {wanted}", facts.roster.label(rank)
        yield Item(name=name, ok=False, expected=expected, actual=status_text(status), phase="finalize", blame=blame)
    yield from _commands(facts, name, ends.failing_client)


def _commands(facts: Facts, name: str, failing: int | None) -> Failed:
    """Examine the end of impirun, as client and as server."""
    yield from _client_commands(facts, name, failing)
    yield from _server_command(facts, name, failing)


def _client_commands(facts: Facts, name: str, failing: int | None) -> Failed:
    for client, command in enumerate(facts.seen.clients):
        must_fail = client == failing
        good = command.code is not None and (failing is not None or command.code == 0)
        if not good or (must_fail and command.code == 0):
            expected = f"impirun of client {client} ends with {'an error' if must_fail else '0'}"
            blame = facts.client(client)
            yield Item(name=name, ok=False, expected=expected, actual=ending(command), phase="fini", blame=blame)


def _server_command(facts: Facts, name: str, failing: int | None) -> Failed:
    server = facts.seen.server
    if server is None or server.code is None or (server.code == 0) != (failing is None):
        expected = f"the server ends with {'0' if failing is None else 'an error'}"
        actual = ending(server) if server else "it was not started"
        yield Item(name=name, ok=False, expected=expected, actual=actual, phase="fini", blame="server")
    elif failing is not None and not any(f"client {failing}" in line for line in _errors(server)):
        said = " ".join(_errors(server))[-200:]
        expected, actual = f"the server names client {failing}", said or "it names nobody"
        yield Item(name=name, ok=False, expected=expected, actual=actual, phase="fini", blame="server")


def _errors(command: CommandSeen) -> list[str]:
    """Return the errors that it printed, without its reports of joins and ends."""
    return [line for line in command.stderr.splitlines() if line.startswith("Error")]


def fini(facts: Facts, name: str) -> Failed:
    """FINI on every channel both ways (IMPI 3.8), and from every client to the server (2.3.7)."""
    failing = facts.case.ends(facts.roster).failing_client
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
        elif item.unfinished:
            expected, actual = "FINI on every channel, both ways", f"none from {item.unfinished[0]}"
            yield Item(
                name=name, ok=False, expected=expected, actual=actual, phase="finalize", blame=item.unfinished[0]
            )
        else:
            for client in range(facts.roster.nclients):
                said = item.reached.get(client) == "fini"
                if (said and client == failing) or (not said and failing is None):
                    expected = f"{'no ' if client == failing else ''}FINI of client {client} to the server"
                    actual, blame = "it was sent" if said else "none", facts.client(client)
                    yield Item(name=name, ok=False, expected=expected, actual=actual, phase="fini", blame=blame)


def leftovers(facts: Facts, name: str) -> Failed:
    """No process, segment or port is left."""
    commands = [c for c in (*facts.seen.clients, facts.seen.server) if c is not None]
    found = [f"{c.who}: {left}" for c in commands for left in c.leftovers] + list(facts.seen.leftovers)
    if found:
        blame = found[0].split(":", 1)[0]
        yield Item(name=name, ok=False, expected="nothing left", actual=found[0], phase="down", blame=blame)


def capture(facts: Facts, name: str) -> Failed:
    """The captures have both canaries and no holes."""
    for item in wire_of(facts, name):
        if isinstance(item, Item):
            yield item
        elif item.untrusted:
            expected, actual = "captures without holes", item.untrusted[0]
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="down", blame="lab")
