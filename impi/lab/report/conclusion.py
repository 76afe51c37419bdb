"""The end of a run: its results, its pages, and what the terminal says of it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from impi.base.errors import LabError
from impi.base.exit_codes import ExitCode
from impi.lab.judge.expectations import Expectations
from impi.lab.plan.matrix import Plan
from impi.lab.report.pages.run_pages import write_pages
from impi.lab.report.results import (
    RunFolder,
    exit_code,
    sign_of_result,
    why_self_reported,
)
from impi.lab.report.show import matrix
from impi.lab.report.upkeep import check_rows, check_run
from impi.lab.run.schedule import Done


def explained(done: Done, expectations: Expectations) -> Done:
    """Hold a cell that is over against the expectations."""
    # Rows cannot explain cells that were not even tried.
    return replace(
        done, row=expectations.find(done.cell, done.verdict) if done.attempts else None
    )


class Conclusion:
    """The outcome of each cell of a plan; it is written at once.

    Args:
        missing: why cells of the plan have no result, where the run was not interrupted.
    """

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        results: Sequence[Done],
        expectations: Expectations,
        *,
        interrupted: bool = False,
        missing: str = "the run ended early",
    ) -> None:
        self._plan, self._folder, self._results = plan, folder, results
        over = {result.cell.id for result in results}

        left = [cell for cell in plan.cells if cell.id not in over]
        for excluded in plan.unsupported:
            folder.add_excluded(excluded)

        folder.add_skipped(left, "the run was interrupted" if interrupted else missing)
        self._problems = check_rows(
            expectations, datetime.date.today(), results
        ) + check_run(expectations, results)
        counted = [
            *(result.counts_as for result in results),
            *("skipped" for _ in left),
        ]
        self.code = exit_code(
            counted, interrupted=bool(left) and interrupted, stale=bool(self._problems)
        )

        folder.finish(self.code, self._problems)
        try:
            self._page = str(write_pages(folder.path))
        except LabError as error:
            # The verdicts are there, and pages can be written later
            self._page = (
                f"is missing: {error}; 'impilab report {folder.path}' writes it"
            )

    def show(self, console: Console) -> None:
        """Print the matrix, the totals, and where everything is."""

        def say(text: str) -> None:
            console.print(text, highlight=False, soft_wrap=True, markup=False)

        if self._results:
            matrix(self._results, console)

        for problem in self._problems:
            say(f"expectations: {problem}")

        say(self._totals())
        say(
            f"results {self._folder.path}/results.json  junit {self._folder.path}/junit.xml"
        )
        say(f"report {self._page}")

    def _totals(self) -> str:
        text = ", ".join(
            f"{count} {name}" for name, count in self._folder.totals.items()
        )
        if own := [r.verdict for r in self._results if r.verdict.self_reported]:
            why = why_self_reported(name for verdict in own for name in verdict.unseen)
            text += f"; {sign_of_result('pass', self_reported=True)} {why}"

        if self._plan.unsupported:
            text += f"; unsupported here: {self._plan.unsupported[0].reason}"

        if self.code == ExitCode.INTERRUPTED:
            text = f"interrupted: {text}; 'impilab run --resume' continues it"

        return text
