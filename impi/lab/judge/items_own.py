"""Evidence for the user's conditions on a program of their own: exit code and output."""

from __future__ import annotations

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
