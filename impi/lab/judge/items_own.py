"""Evidence for what a program prints, writes and ends with.

That is the labels of its lines, and the user's conditions on a program of their own.
"""

from __future__ import annotations

from impi.base.manifests import manifest
from impi.lab.cases.case import LABELLED
from impi.lab.judge.cell_facts import Facts, Failed, ending, failing


def code(facts: Facts) -> Failed:
    """The impirun of every client ends with the exit code that the user has named.

    Ranks may be taken down by the first one that leaves: impirun tells the code of the job.
    """
    wanted = facts.conditions.exit_code
    for client, command in enumerate(facts.seen.clients):
        if command.code != wanted:
            yield failing(
                f"impirun of client {client} ends with {wanted}",
                ending(command),
                "fini",
                facts.client(client),
            )


def output(facts: Facts) -> Failed:
    """The file that the program writes is there, and equal to what it is compared with."""
    name, seen = facts.conditions.output, facts.seen.output
    if not name:
        return

    if seen is None:
        yield failing(
            f"the program writes {name}", "no rank has written it", "case", "program"
        )
    elif seen.difference:
        yield failing(
            f"{name} as that of {seen.compared_to}",
            f"{seen.difference}",
            "case",
            "program",
        )


def labels(facts: Facts) -> Failed:
    """With ``--label`` the line of each rank comes behind the numbers of client and rank."""
    if LABELLED not in facts.case.launch.options:
        return

    server = facts.seen.server.stdout if facts.seen.server else ""
    for client, command in enumerate(facts.seen.clients):
        ranks = facts.roster.of_client(client)
        if manifest(facts.roster.ranks[ranks[0]].vendor).kind != "backed":
            continue  # its launcher is not ours

        # One impirun that starts all is the server's.
        printed = (command.stdout or server).splitlines()
        for number, rank in enumerate(ranks):
            line = f"[{client}:{number}] {facts.nonce} {rank}"
            if line not in printed:
                said = [each for each in printed if facts.nonce in each]
                yield failing(
                    f"the line {line!r}",
                    ", ".join(map(repr, said)) or "no line with the nonce",
                    "case",
                    facts.client(client),
                )
