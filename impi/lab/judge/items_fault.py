"""Evidence that a fault happened, and that the job ended, said why, and named the one at fault.

:func:`happened` comes first: a fault that was not caused proves nothing, and is the lab's error.
:func:`ended` holds each command's end against the limit of the act. :func:`named` holds the
sentences of the server and of every impirun against each other.
docs/how-it-works/fault-matrix.md has the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from impi.lab.cases.faults import STARTING, Fault
from impi.lab.evidence.gathered import CommandSeen, FaultSeen
from impi.lab.judge.cell_facts import Facts, Failed, ending, failing

_WORKING: Final = "while the job was running"
# The phases of a job that a sentence may name.
_PHASES: Final = re.compile(
    rf"before the program had initialised MPI|before (?:its )?start-up was complete|{_WORKING}"
)
# half the delay that act ``slow`` gives a link: the average over all packets
_LEAST_LATE_S: Final = 0.1
# what a library leaves before our sentence on a line; Open MPI's mpiexec leaves a NUL octet
_NOISE: Final = " \t\0"
_PARTY: Final = re.compile(r"\bclient (\d+)\b|\b(?:the |our )(server)\b|\b(host) \d+\b")


# -- that it happened


def happened(facts: Facts) -> Failed:
    """The fault of the variant happened, by what kernel, engine and the lab's program saw."""

    seen, fault = facts.seen.fault, facts.fault
    if fault is None:
        return

    # Ranks hold the job in its phase until the lab acts. Without all of
    # them the act would have hit another phase than the cell is named for.
    actual = (
        "not all ranks reached that phase"
        if seen is None or not seen.began
        else _doubt(fault, seen)
    )
    if actual:
        yield failing(str(fault), actual, "case", "lab")


def _doubt(fault: Fault, seen: FaultSeen) -> str:
    """Return what speaks against a fault that was caused; empty: nothing does."""

    act, kind = fault.what, fault.whom.kind

    long_enough = seen.lasted_s >= act.lasts_s
    if fault.in_matrix and not long_enough:
        return f"it lasted for {seen.lasted_s:.1f} s only"

    # The proof depends on the act: counters of the kernel, the queue of a
    # link, the engine, the states of threads, or the end of the process.
    if act.refuses:
        proved, doubt = seen.refused > 0, "no packet was refused"
    elif kind == "links":
        proved, doubt = (
            seen.late >= _LEAST_LATE_S,
            f"packets were held for {seen.late * 1e3:.0f} ms only",
        )
    # A node is killed or frozen by the engine, so only the engine can tell.
    elif kind == "node" and fault.in_matrix:
        proved, doubt = (
            (seen.ended or seen.frozen),
            "the engine did not kill it, or did not keep it frozen to the end",
        )
    elif kind == "node":
        proved, doubt = (
            seen.frozen and long_enough,
            "the node was not frozen long enough",
        )
    elif act.signal == "SIGSTOP":
        proved, doubt = seen.still, f"process {seen.victim} did not stand still"
    elif act.signal == "SIGKILL":
        proved, doubt = seen.ended, f"process {seen.victim} did not end"
    # A process may handle TERM or INT and go on for a while: only the delivery is certain.
    else:
        proved, doubt = seen.victim > 0, "no process got the signal"

    return "" if proved else doubt


# -- what must follow


def ended(facts: Facts) -> Failed:
    """Server and clients ended in time, and with an error."""

    hit, seen = facts.hit, facts.seen.fault
    if hit is None or seen is None:
        return

    limit_s = hit.what.limit_s
    # The limit counts from the act. The beginning of the cell is the
    # zero of a command's time.
    for command in _commands(facts):
        late = (
            None
            if command.ended_s is None
            else command.ended_s - (seen.at - facts.seen.times.began)
        )
        if _is_beyond(facts, hit, command) and late is not None:
            # frozen, with nothing above it: it can end only once it is thawed
            late -= seen.thawed_at - seen.at

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
        # In phase early the held client is not there yet, so it can neither
        # end nor say anything.
        if hit is None or client != hit.held_client(facts.roster.nclients):
            yield command


def _is_beyond(facts: Facts, hit: Fault, command: CommandSeen) -> bool:
    """Whether the command itself was frozen: nothing above it could end it."""
    client = hit.struck_client(facts.roster.nclients)
    mine = {
        "server": "server",
        "client": f"client {client}",
        "node": f"client {client}",
    }.get(hit.victim)

    return hit.what.freezes and command.who == mine


def _blamed(facts: Facts, command: CommandSeen) -> str:
    kind, _, number = command.who.partition(" ")
    return facts.client(int(number)) if number else kind


def sentences(command: CommandSeen) -> list[str]:
    """Return what the server or an impirun says of failures, without the name of who speaks."""
    # Each line begins with who speaks, which differs by command. The
    # rest must be equal.
    head = r"Error: " if command.who == "server" else rf"impirun: {command.who}: "
    found = (
        re.match(rf"{head}(.*)", line.lstrip(_NOISE))
        for line in command.stderr.splitlines()
    )

    return [match[1] for match in found if match]


def named(facts: Facts) -> Failed:
    """Server and clients say the same sentence, which names the victim and no other party."""

    hit = facts.hit
    if hit is None:
        return

    client = hit.struck_client(facts.roster.nclients)
    # Whoever was killed, frozen or cut off cannot be asked for a sentence.
    observers = [each for each in _commands(facts) if not _is_deaf(facts, hit, each)]

    first = ""
    for command in observers:
        said = sentences(command)
        # Before the job begins, one command says the cause once, by its server. What a client
        # adds all the same must be that sentence.
        is_told = facts.is_by_one and command.who != "server"
        if is_told and hit.phase in STARTING and not command.stderr.strip():
            continue

        expected = f"one sentence of {command.who} that names {hit.whom.about}"

        actual = _wrong(
            hit, client, facts.seen.fault.victim if facts.seen.fault else 0, said, first
        )
        if not actual and (other := _wrong_accusation(hit, client, command)):
            actual = f"it says {other!r}"

        if actual:
            yield failing(expected, actual, "down", _blamed(facts, command))

        # The first sentence that was accepted is what all others have to
        # repeat word for word.
        first = first or (said[-1] if said else "")


def _is_deaf(facts: Facts, hit: Fault, command: CommandSeen) -> bool:
    """Whether the command cannot say the sentence: it was hit, or no news reaches it."""

    client = f"client {hit.struck_client(facts.roster.nclients)}"
    # After TERM or INT the server and impirun still say why they end.
    if hit.victim == "server":
        return command.who == "server" and hit.act in ("kill", "freeze")

    if hit.victim == "client":
        return command.who == client and hit.act in ("kill", "freeze")

    return command.who == client and hit.victim in ("node", "link")


def _wrong(hit: Fault, client: int, pid: int, said: list[str], first: str) -> str:
    """Return what is wrong with the sentences of one command; empty: nothing is.

    ``pid``: the process that was hit; ``first``: the sentence of another command.
    """

    # A second sentence hides the first one from a user: exactly one is demanded.
    if len(said) != 1:
        return f"it says {' | '.join(said)}" if said else "it says nothing"

    (sentence,) = said
    # Name, then agreement with the others, then phase: the first mistake is told.
    phases = _PHASES.findall(sentence)

    names = [hit.whom.named]
    # Before MPI_Init a rank has told no one which it is: its pid or its mpiexec must do.
    if hit.phase == "early" and hit.whom.early:
        names += [hit.whom.early, rf"\bclient {{client}}\b.*\bprocess {pid}\b"]

    if not any(re.search(name.format(client=client), sentence) for name in names):
        return f"it says {sentence!r}"

    if first and sentence != first:
        return f"it says {sentence!r}, and not {first!r}"

    # Parties see different stations of start-up at one time. After it there is one phase only.
    if not phases or (hit.phase not in STARTING and phases != [_WORKING]):
        return f"it names no phase, or a wrong one: {sentence!r}"

    return ""


def _wrong_accusation(hit: Fault, client: int, command: CommandSeen) -> str:
    """Return a line that names somebody who is not at fault; empty: there is none."""
    # The server's reports of joins name every client, so only its errors count.
    for line in (
        sentences(command) if command.who == "server" else command.stderr.splitlines()
    ):
        text = line.strip(_NOISE).removeprefix(f"impirun: {command.who}: ")
        # Any party in a line counts, even a right victim beside a wrong one.
        for match in _PARTY.finditer(text):
            number, server, _host = match.groups()

            # Neither side of a cut channel can know which end is to blame:
            # any client's name will do.
            right = (
                server
                if hit.victim == "server"
                else hit.victim == "channel" or number == str(client)
            )
            if not right:
                return line[:200]

    return ""
