"""The first bad commit of a small repository, whose commits are tried by a shell script."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from impi.base.bisection import Repository, Trial, first_bad
from impi.base.errors import LabError, UsageError

WHO = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}
ENVIRONMENT = {**os.environ, **WHO, "GIT_CONFIG_GLOBAL": "/dev/null"}


def git(folder: Path, *words: str) -> str:
    argv = ["git", "-C", str(folder), *words]
    return subprocess.run(
        argv, env=ENVIRONMENT, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Eight commits, each with a file ``number``."""
    folder = tmp_path / "source"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number in range(8):
        (folder / "number").write_text(f"{number}\n")
        git(folder, "add", "number")
        git(folder, "commit", "-q", "-m", f"number {number}")
    return Repository(folder)


def trial(script: str, build: str = "") -> Trial:
    """``script`` runs with N, the number of the commit."""

    def order(tree: Path, prefix: Path) -> tuple[Sequence[str], Mapping[str, str]]:
        place = prefix if build else tree
        return ["/bin/sh", "-c", f"N=$(cat {place}/number); {script}"], {**ENVIRONMENT}

    return Trial(order=order, build=build)


def search(
    repository: Repository, it: Trial, good: str = "HEAD~7", bad: str = "HEAD"
) -> tuple[list[str], list[str]]:
    told: list[str] = []
    ends = repository.commit("--good", good), repository.commit("--bad", bad)
    found = first_bad(repository, *ends, it, told.append)
    return [repository.subject(commit).partition(" ")[2] for commit in found], told


def untouched(repository: Repository) -> bool:
    folders = git(repository.folder, "worktree", "list").splitlines()
    return len(folders) == 1 and not git(repository.folder, "status", "--porcelain")


def test_the_first_bad_commit_is_named(repository: Repository) -> None:
    found, told = search(repository, trial('[ "$N" -lt 5 ]'))
    assert found == ["number 5"]
    assert told[0].startswith("bad   ")
    assert told[1].startswith("good  ")
    assert len(told) == 5  # both ends, and three between
    assert untouched(repository)


def test_commits_that_cannot_be_tried_are_passed_over(repository: Repository) -> None:
    found, told = search(
        repository, trial('[ "$N" != 3 ] || { echo no mpi; exit 125; }; [ "$N" -lt 5 ]')
    )
    assert found == ["number 5"]
    assert any(line.startswith("skip") and "(no mpi)" in line for line in told)
    found, _ = search(
        repository, trial('case $N in 3|4|5) exit 125;; esac; [ "$N" -lt 5 ]')
    )
    assert sorted(found) == ["number 3", "number 4", "number 5", "number 6"]
    assert untouched(repository)


def test_a_build_fills_a_fresh_prefix(repository: Repository) -> None:
    fresh = "[ ! -e $PREFIX ] && [ ! -e built ] && touch built && mkdir $PREFIX"
    build = f'{fresh} && cp number $PREFIX && [ "$(cat number)" != 4 ]'
    found, told = search(repository, trial('[ "$N" -lt 5 ]', build))
    assert sorted(found) == ["number 4", "number 5"]
    assert any("it cannot be built: it said nothing" in line for line in told)


def test_ends_that_are_not_as_they_were_named(repository: Repository) -> None:
    with pytest.raises(UsageError, match="is good, and was named as the bad one"):
        search(repository, trial("true"))
    with pytest.raises(UsageError, match="is bad, and was named as the good one"):
        search(repository, trial("false"))
    with pytest.raises(LabError, match=r"the bad commit .* cannot be tried: no engine"):
        search(repository, trial("echo no engine; exit 3"))
    assert untouched(repository)


def test_an_interrupt_ends_it_and_leaves_nothing(repository: Repository) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(repository, trial("exit 130"))
    assert untouched(repository)


def test_a_good_commit_that_is_no_ancestor(repository: Repository) -> None:
    with pytest.raises((UsageError, LabError)):
        search(repository, trial('[ "$N" -ge 5 ]'), good="HEAD", bad="HEAD~7")
    assert untouched(repository)


@pytest.mark.parametrize("revision", ["none", "--all", "", "HEAD:number"])
def test_revisions_that_are_none(repository: Repository, revision: str) -> None:
    with pytest.raises(UsageError, match="there is no such commit"):
        repository.commit("--good", revision)


def test_a_folder_without_a_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a repository of git"):
        Repository(tmp_path)


def test_a_command_that_is_missing(repository: Repository) -> None:
    it = Trial(order=lambda _tree, _prefix: (["/no/such/program"], ENVIRONMENT))
    with pytest.raises(
        LabError, match="/no/such/program cannot be started: No such file"
    ):
        search(repository, it)
