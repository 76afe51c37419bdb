"""The first bad commit of a repository, by repeating one cell: ``git bisect`` in a worktree.

The user's own tree stays as it is: each commit is checked out into a folder of its own, which is
removed at the end. What is tested is impi itself, or an MPI library that a command builds there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

from impi.base.errors import LabError, UsageError

Mark = Literal["good", "bad", "skip"]
"""The mark of a commit: the cell passes, does not pass, or cannot be tried there."""
_FOUND: Final = re.compile(r"^([0-9a-f]{40,64}) is the first bad commit", re.M)
_LEFT: Final = re.compile(r"^Bisecting: (.*)$", re.M)
_SKIPPED: Final = "only 'skip'ped commits left"
_CODES: Final[Mapping[int, Mark]] = {0: "good", 1: "bad", 125: "skip"}
_INTERRUPTED: Final = 130
_LOG: Final = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How a commit is tried."""

    # Given the folders of the tree and of a prefix: a command that ends as git bisect wants it (0,
    # 1 or 125), and its environment.
    order: Callable[[Path, Path], tuple[Sequence[str], Mapping[str, str]]]
    # A command of the shell that fills $PREFIX; empty: nothing is built
    build: str = ""


class Repository:
    """A repository of git; all methods raise LabError where git fails."""

    def __init__(self, folder: Path) -> None:
        """UsageError: it is none."""
        self.folder = folder
        if shutil.which("git") is None:
            raise LabError(
                "commits are found by git, which is not installed: install it"
            )

        if subprocess.run(
            ["git", "-C", str(folder), "rev-parse"], capture_output=True, check=False
        ).returncode:
            raise UsageError(
                f"{folder} is not a repository of git: name a checkout by --of DIR"
            )

    def git(self, *words: str, at: Path | None = None) -> str:
        """Return what git prints."""

        argv = ["git", "-C", str(at or self.folder), *words]

        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise LabError(
                f"git {words[0]} failed: {said[-1] if said else done.returncode}"
            )

        return done.stdout

    def commit(self, option: str, revision: str) -> str:
        """Return the commit that a revision names; UsageError: there is none."""
        try:
            return self.git(
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                f"{revision}^{{commit}}",
            ).strip()
        except LabError:
            raise UsageError(
                f"{option} {revision}: there is no such commit in {self.folder}"
            ) from None

    def subject(self, commit: str) -> str:
        """Return a commit in one line."""
        return self.git("show", "-s", "--format=%h %s", commit).strip()

    @contextmanager
    def tree(self, commit: str) -> Iterator[Path]:
        """Check a commit out into a folder of its own, with one for a prefix beside it."""
        with tempfile.TemporaryDirectory(prefix="impilab-bisect-") as made:
            folder = Path(made, "tree")

            # Detached, so that no branch of the user is checked out twice or moved.
            self.git("worktree", "add", "--detach", "--force", str(folder), commit)
            try:
                yield folder
            finally:
                self.git("worktree", "remove", "--force", str(folder))


def first_bad(
    repository: Repository,
    good: str,
    bad: str,
    trial: Trial,
    tell: Callable[[str], None],
) -> list[str]:
    """Return the first bad commit; several where those between could not be tried.

    Args:
        repository: whose commits.
        good: a commit where the cell passes.
        bad: a later one where it does not.
        trial: how a commit is tried.
        tell: gets a line for each commit.

    Raises:
        UsageError: the ends are not as they were named.
        LabError: they cannot be tried.
    """
    with repository.tree(bad) as tree:
        # Both ends first: a wrong one would send the search to a commit that is innocent.
        for commit, wanted in ((bad, "bad"), (good, "good")):
            repository.git(
                "checkout", "--quiet", "--detach", "--force", commit, at=tree
            )
            found, why = _tried(trial, tree, repository)

            tell(f"{found:<5} {repository.subject(commit)}")
            if found == "skip":
                raise LabError(
                    f"the {wanted} commit {commit[:10]} cannot be tried: {why}"
                )

            if found != wanted:
                raise UsageError(
                    f"commit {commit[:10]} is {found}, and was named as the {wanted} one: name another"
                )

        # A repository keeps the state of a bisection for each worktree, so a search
        # of the user's own goes on.
        said = repository.git("bisect", "start", bad, good, at=tree)
        try:
            return _searched(repository, tree, trial, tell, said)
        finally:
            repository.git("bisect", "reset", bad, at=tree)


def _searched(
    repository: Repository,
    tree: Path,
    trial: Trial,
    tell: Callable[[str], None],
    said: str,
) -> list[str]:
    # Git's own words tell what came of a mark: the first bad commit, none but skipped
    # ones, or how many are left.
    while not (found := _FOUND.search(said)):
        commit = repository.git("rev-parse", "HEAD", at=tree).strip()
        mark, why = _tried(trial, tree, repository)
        left = _LEFT.search(said)
        more = f"  ({why})" if mark == "skip" else f"  ({left[1]})" if left else ""
        tell(f"{mark:<5} {repository.subject(commit)}{more}")
        argv = ["git", "-C", str(tree), "bisect", mark]
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", check=False
        )

        said = done.stdout + done.stderr
        if _SKIPPED in said:
            return re.findall(r"^[0-9a-f]{40,64}$", said, re.M)

        if done.returncode:
            raise LabError(
                f"git bisect failed: {said.strip().splitlines()[-1] if said.strip() else done.returncode}"
            )

    return [found[1]]


def _tried(trial: Trial, tree: Path, repository: Repository) -> tuple[Mark, str]:
    """Return what the commit in the tree is, and why it cannot be tried, if it cannot."""

    prefix, log = tree.parent / "prefix", tree.parent / _LOG

    argv, environment = trial.order(tree, prefix)
    with log.open("wb") as output:
        if trial.build:
            # Nothing of the commit before may be left, or its library would be tested again.
            shutil.rmtree(prefix, ignore_errors=True)

            repository.git("clean", "-fdxq", at=tree)
            if _ended(
                ["/bin/sh", "-c", trial.build],
                tree,
                {**environment, "PREFIX": str(prefix)},
                output,
            ):
                return "skip", f"it cannot be built: {_last_line(log)}"

        code = _ended(argv, tree.parent, environment, output)

    if code == _INTERRUPTED:
        raise KeyboardInterrupt

    return _CODES.get(code, "skip"), _last_line(log)


def _ended(
    argv: Sequence[str], at: Path, environment: Mapping[str, str], output: BinaryIO
) -> int:
    try:
        done = subprocess.run(
            argv,
            cwd=at,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise LabError(f"{argv[0]} cannot be started: {error.strerror}") from error

    return done.returncode


def _last_line(log: Path) -> str:
    """The last line of a log, for the end of a sentence."""
    lines = [
        line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()
    ]
    return lines[-1].strip()[:200] if lines else "it said nothing"
