"""Evidence that a fault happened, and that the job ended, said why, and named the one at fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from impi.testbed.cases.fault_matrix import STARTING, Hit, holding_client, victim_client
from impi.testbed.evidence.evidence import CommandSeen, FaultSeen
from impi.testbed.judge.cell_facts import Facts, Failed, Item, ending

_WORKING: Final = "while the job was running"
_PHASES: Final = re.compile(rf"before the program had initialised MPI|before (?:its )?start-up was complete|{_WORKING}")
"""The phases that a sentence may name."""
_LEAST_LATE_S: Final = 0.1
"""Packets of a slow link are held for at least so long."""
_NOISE: Final = " \t\0"
"""A library may have begun the line without ending it, Open MPI's mpiexec with a NUL octet."""
_PARTY: Final = re.compile(r"\bclient (\d+)\b|\b(?:the |our )(server)\b|\b(host) \d+\b")


# -- that it happened


def happened(facts: Facts, name: str) -> Failed:
    """The fault of the variant happened, by what kernel, engine and the lab's program saw."""
    seen, hit = facts.seen.fault, facts.hit
    if hit is None and facts.fault is None:
        return
    if seen is None or not seen.began:
        actual = "not all ranks came to that phase"
    elif hit is not None:
        actual = _not_hit(hit, seen)
    elif seen.kind in ("partition", "reset", "cuts"):
        actual = "" if seen.refused else "no packet was refused"
    else:
        lasts_s = facts.fault.lasts_s if facts.fault is not None else 0.0
        actual = "" if seen.frozen and seen.lasted_s >= lasts_s else "the node was not frozen for so long"
    if actual:
        value = facts.settings["fault"]
        yield Item(name=name, ok=False, expected=f"{value}", actual=actual, phase="case", blame="lab")


def _not_hit(hit: Hit, seen: FaultSeen) -> str:
    """What speaks against a hit; empty: nothing."""
    if seen.lasted_s < hit.what.lasts_s:
        return f"it lasted for {seen.lasted_s:.1f} s only"
    if hit.act in ("cut", "blink", "reset"):
        proved, doubt = seen.refused > 0, "no packet was refused"
    elif hit.victim in ("link", "channel"):
        proved, doubt = seen.late >= _LEAST_LATE_S, f"packets were held for {seen.late * 1e3:.0f} ms only"
    elif hit.victim == "node":
        proved, doubt = (seen.ended or seen.frozen), "the engine had not killed it, or frozen it to the end"
    elif hit.what.signal == "SIGSTOP":
        proved, doubt = seen.still, f"process {seen.victim} did not stand still"
    elif hit.what.signal == "SIGKILL":
        proved, doubt = seen.ended, f"process {seen.victim} did not end"
    else:
        proved, doubt = seen.victim > 0, "no process got the signal"
    return "" if proved else doubt


# -- what must follow


def ended(facts: Facts, name: str) -> Failed:
    """Everybody else ended in time, and everybody with an error."""
    hit, seen = facts.hit, facts.seen.fault
    if hit is None or seen is None:
        return
    limit_s = hit.what.limit_s
    for command in _commands(facts):
        late = None if command.ended_s is None else command.ended_s - (seen.at - facts.seen.began)
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
            yield Item(
                name=name, ok=False, expected=expected, actual=actual, phase="down", blame=_blamed(facts, command)
            )


def _commands(facts: Facts) -> Iterator[CommandSeen]:
    """The server and the clients that were started."""
    hit, seen = facts.hit, facts.seen
    if seen.server is not None:
        yield seen.server
    for client, command in enumerate(seen.clients):
        if hit is None or hit.phase != "early" or client != holding_client(facts.roster.nclients):
            yield command


def _is_beyond(facts: Facts, hit: Hit, command: CommandSeen) -> bool:
    """Whether the command itself stood still, with nobody above it."""
    client = victim_client(facts.roster.nclients)
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


def named(facts: Facts, name: str) -> Failed:
    """Server and clients say the same sentence, which names the victim; nobody else is named."""
    hit = facts.hit
    if hit is None:
        return
    client = victim_client(facts.roster.nclients)
    observers = [each for each in _commands(facts) if not _is_deaf(facts, hit, each)]
    first = ""
    for command in observers:
        said = sentences(command)
        expected = f"one sentence of {command.who} that names {hit.whom.about}"
        actual = _wrong(hit, client, facts.seen.fault.victim if facts.seen.fault else 0, said, first)
        if not actual and (other := _others(hit, client, command)):
            actual = f"it says {other!r}"
        if actual:
            blame = _blamed(facts, command)
            yield Item(name=name, ok=False, expected=expected, actual=actual, phase="down", blame=blame)
        first = first or (said[-1] if said else "")


def _is_deaf(facts: Facts, hit: Hit, command: CommandSeen) -> bool:
    """Whether the command was hit, or cannot be told what the others know."""
    client = f"client {victim_client(facts.roster.nclients)}"
    if hit.victim == "server":
        return command.who == "server" and hit.act in ("kill", "freeze")
    if hit.victim == "client":
        return command.who == client and hit.act in ("kill", "freeze")
    return command.who == client and hit.victim in ("node", "link")


def _wrong(hit: Hit, client: int, pid: int, said: list[str], first: str) -> str:
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


def _others(hit: Hit, client: int, command: CommandSeen) -> str:
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
