"""The end of a command line with several verbs: an exit code, and one sentence for an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from impi.errors import ImpiError, UsageError
from impi.exit_codes import ExitCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The name of a program, and its exit codes."""

    prog: str
    usage: int = ExitCode.USAGE
    wrong: int = ExitCode.FAILED
    """After any other error of ours."""
    interrupted: int = ExitCode.INTERRUPTED

    def of(self, work: Callable[[], int], *, unread: str = "") -> int:
        """Run ``work``, whose result is the exit code, and flush stdout.

        A reader of stdout that is gone is no error; if ``work`` depended on it, ``unread`` says so.
        """
        code: int | None = None
        try:
            code = work()
            sys.stdout.flush()
            return code
        except UsageError as error:
            return self._complain(error, self.usage)
        except ImpiError as error:
            return self._complain(error, self.wrong)
        except KeyboardInterrupt:
            return self._complain("interrupted", self.interrupted)
        except BrokenPipeError:
            # The reader of stdout has gone: discard the octets that the interpreter would flush.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if code is None and unread:
                return self._complain(unread, self.wrong)
            return code or 0

    def _complain(self, what: ImpiError | str, code: int) -> int:
        print(f"{self.prog}: {what}", file=sys.stderr)
        return code
