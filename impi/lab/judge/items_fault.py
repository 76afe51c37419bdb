"""Evidence that a fault happened, and that the job ended, said why, and named the one at fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from impi.lab.cases.faults import STARTING, Fault
from impi.lab.evidence.gathered import CommandSeen, FaultSeen
from impi.lab.judge.cell_facts import Facts, Failed, ending, failing

_WORKING: Final = "while the job was running"
# The phases that a sentence may name.
_PHASES: Final = re.compile(rf"before the program had initialised MPI|before (?:its )?start-up was complete|{_WORKING}")
_LEAST_LATE_S: Final = 0.1  # packets of a slow link are held for at least so long
_NOISE: Final = " \t\0"  # a library may have begun the line without ending it, Open MPI's mpiexec with a NUL octet
_PARTY: Final = re.compile(r"\bclient (\d+)\b|\b(?:the |our )(server)\b|\b(host) \d+\b")


# -- that it happened


def happened(facts: Facts) -> Failed:
    """The fault of the variant happened, by what kernel, engine and the lab's program saw."""
    seen, fault = facts.seen.fault, facts.fault
    if fault is None:
        return
    actual = "not all ranks came to that phase" if seen is None or not seen.began else _doubt(fault, seen)
    if actual:
        yield failing(str(fault), actual, "case", "lab")


def _doubt(fault: Fault, seen: FaultSeen) -> str:
    """What speaks against a fault that was caused; empty: nothing."""
    act, kind = fault.what, fault.whom.kind
    long_enough = seen.lasted_s >= act.lasts_s
    if fault.in_matrix and not long_enough:
        return f"it lasted for {seen.lasted_s:.1f} s only"
    if act.refuses:
        proved, doubt = seen.refused > 0, "no packet was refused"
    elif kind == "links":
        proved, doubt = seen.late >= _LEAST_LATE_S, f"packets were held for {seen.late * 1e3:.0f} ms only"
    elif kind == "node" and fault.in_matrix:
        proved, doubt = (seen.ended or seen.frozen), "the engine had not killed it, or frozen it to the end"
    elif kind == "node":
        proved, doubt = seen.frozen and long_enough, "the node was not frozen for so long"
    elif act.signal == "SIGSTOP":
        proved, doubt = seen.still, f"process {seen.victim} did not stand still"
    elif act.signal == "SIGKILL":
        proved, doubt = seen.ended, f"process {seen.victim} did not end"
    else:
        proved, doubt = seen.victim > 0, "no process got the signal"
    return "" if proved else doubt


# -- what must follow


def ended(facts: Facts) -> Failed:
    """Everybody else ended in time, and everybody with an error."""
    hit, seen = facts.hit, facts.seen.fault
    if hit is None or seen is None:
        return
    limit_s = hit.what.limit_s
    for command in _commands(facts):
        late = None if command.ended_s is None else command.ended_s - (seen.at - facts.seen.times.began)
        if _is_beyond(facts, hit, command) and late is not None:
            late -= seen.thawed_at - seen.at  # it can only end once it is let go on
        expected = f"{command.who} ends within {limit_s:g} s with an error"
        if command.code is None or late is None:
            actual = ending(command)
        elif late > limit_s:
            actual = f"it ended after {late:.1f} s"
        else:
            actual = ending(command) if command.code == 0 else ""
        if actual:
            yield failing(expected, actual, "down", _blamed(facts, command))


def _commands(facts: Facts) -> Iterator[CommandSeen]:
    hit, seen = facts.hit, facts.seen
    if seen.server is not None:
        yield seen.server
    for client, command in enumerate(seen.clients):
        if hit is None or client != hit.held_client(facts.roster.nclients):
            yield command


def _is_beyond(facts: Facts, hit: Fault, command: CommandSeen) -> bool:
    """Whether the command itself stood still, with nobody above it."""
    client = hit.struck_client(facts.roster.nclients)
    mine = {"server": "server", "client": f"client {client}", "node": f"client {client}"}.get(hit.victim)
    return hit.what.freezes and command.who == mine


def _blamed(facts: Facts, command: CommandSeen) -> str:
    kind, _, number = command.who.partition(" ")
    return facts.client(int(number)) if number else kind


def sentences(command: CommandSeen) -> list[str]:
    """What the server or an impirun says of failures, without who says it."""
    head = r"Error: " if command.who == "server" else rf"impirun: {command.who}: "
    found = (re.match(rf"{head}(.*)", line.lstrip(_NOISE)) for line in command.stderr.splitlines())
    return [match[1] for match in found if match]


def named(facts: Facts) -> Failed:
    """Server and clients say the same sentence, which names the victim; nobody else is named."""
    hit = facts.hit
    if hit is None:
        return
    client = hit.struck_client(facts.roster.nclients)
    observers = [each for each in _commands(facts) if not _is_deaf(facts, hit, each)]
    first = ""
    for command in observers:
        said = sentences(command)
        expected = f"one sentence of {command.who} that names {hit.whom.about}"
        actual = _wrong(hit, client, facts.seen.fault.victim if facts.seen.fault else 0, said, first)
        if not actual and (other := _others(hit, client, command)):
            actual = f"it says {other!r}"
        if actual:
            yield failing(expected, actual, "down", _blamed(facts, command))
        first = first or (said[-1] if said else "")


def _is_deaf(facts: Facts, hit: Fault, command: CommandSeen) -> bool:
    """Whether the command was hit, or cannot be told what the others know."""
    client = f"client {hit.struck_client(facts.roster.nclients)}"
    if hit.victim == "server":
        return command.who == "server" and hit.act in ("kill", "freeze")
    if hit.victim == "client":
        return command.who == client and hit.act in ("kill", "freeze")
    return command.who == client and hit.victim in ("node", "link")


def _wrong(hit: Fault, client: int, pid: int, said: list[str], first: str) -> str:
    """What is wrong with what one of them said; empty: nothing.

    ``pid``: the process that was hit; ``first``: what another one said.
    """
    if len(said) != 1:
        return f"it says {' | '.join(said)}" if said else "it says nothing"
    (sentence,) = said
    phases = _PHASES.findall(sentence)
    names = [hit.whom.named]
    if hit.phase == "early" and hit.whom.early:
        names += [hit.whom.early, rf"\bclient {{client}}\b.*\bprocess {pid}\b"]
    if not any(re.search(name.format(client=client), sentence) for name in names):
        return f"it says {sentence!r}"
    if first and sentence != first:
        return f"it says {sentence!r}, and not {first!r}"
    if not phases or (hit.phase not in STARTING and phases != [_WORKING]):
        return f"it names no phase, or a wrong one: {sentence!r}"
    return ""


def _others(hit: Fault, client: int, command: CommandSeen) -> str:
    """A line that names somebody who is not at fault; empty: there is none."""
    # The server tells who has joined, too.
    for line in sentences(command) if command.who == "server" else command.stderr.splitlines():
        text = line.strip(_NOISE).removeprefix(f"impirun: {command.who}: ")
        for match in _PARTY.finditer(text):
            number, server, _host = match.groups()
            right = server if hit.victim == "server" else hit.victim == "channel" or number == str(client)
            if not right:
                return line[:200]
    return ""
