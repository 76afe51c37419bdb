"""The desk of the web page: one run at a time, its outcomes, and a stop.

A run goes on in a thread of its own. The page asks for what is new (:meth:`Desk.news`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from impi.base.errors import ImpiError, UsageError
from impi.lab.conform.outcomes import Outcome
from impi.lab.conform.script.script_files import Test

Perform: TypeAlias = Callable[
    [Sequence[Test], int, Callable[[Outcome], None], Callable[[str], None]], object
]
"""Runs tests with a number of procs.

It calls ``told`` and ``began`` like :class:`impi.lab.conform.campaign.Campaign`. It passes on what
``began`` raises, and leaves nothing behind.
"""


class _Stopped(Exception):
    """The user has stopped the run."""


class Desk:
    """Runs chosen tests, one run at a time.

    Args:
        tests: all there are to choose from.
        perform: runs some of them.
    """

    def __init__(self, tests: Sequence[Test], perform: Perform) -> None:
        self.tests = list(tests)
        self._perform = perform
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = False
        self._run = 0
        self._chosen = 0
        self._now = ""
        self._trouble = ""
        self._outcomes: list[Outcome] = []

    def start(self, names: Sequence[str], procs: int) -> None:
        """Start a run of the tests with these names.

        Raises:
            UsageError: one runs already, or no test has such a name.
        """

        known = {test.name: test for test in self.tests}

        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise UsageError(
                f"no test is named {unknown[0]!r}" if unknown else "no test is chosen"
            )

        if not 2 <= procs <= 64:
            raise UsageError(f"{procs} procs: give 2 to 64")

        with self._lock:
            if self._thread is not None:
                raise UsageError("a run is under way")

            self._run += 1
            self._chosen, self._stop, self._trouble, self._outcomes = (
                len(names),
                False,
                "",
                [],
            )
            chosen = [known[name] for name in names]
            self._thread = threading.Thread(
                target=self._work, args=(chosen, procs), daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """End the run after the test that is under way."""
        self._stop = True

    def wait(self) -> None:
        thread = self._thread
        if thread is not None:
            thread.join()

    def outcomes(self) -> list[Outcome]:
        with self._lock:
            return list(self._outcomes)

    def announce(self, text: str) -> None:
        """Take the command that the user has to start by hand."""
        self._now = text

    def news(self, run: int, since: int) -> Mapping[str, object]:
        """Return the news for a page that has seen ``since`` outcomes of run number ``run``."""
        with self._lock:
            found = self._outcomes[since if run == self._run else 0 :]
            return {
                "run": self._run,
                "running": self._thread is not None,
                "chosen": self._chosen,
                "ended": len(self._outcomes),
                "now": self._now,
                "trouble": self._trouble,
                "outcomes": [
                    {"test": o.test, "verdict": o.verdict.value, "why": o.why}
                    for o in found
                ],
            }

    def _work(self, tests: Sequence[Test], procs: int) -> None:
        trouble = ""
        try:
            self._perform(tests, procs, self._told, self._began)
        except _Stopped:
            trouble = "stopped"
        except ImpiError as error:
            trouble = str(error)
        finally:
            with self._lock:
                self._trouble, self._now, self._thread = trouble, "", None

    def _told(self, outcome: Outcome) -> None:
        with self._lock:
            self._outcomes.append(outcome)

    def _began(self, name: str) -> None:
        if self._stop:
            raise _Stopped

        self._now = name
