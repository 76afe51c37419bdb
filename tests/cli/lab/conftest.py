"""Tests of verbs have a folder of their own, in which nothing of the project is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.cli.lab import select
from impi.cli.lab.past_runs import expect


@pytest.fixture(autouse=True)
def no_files_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    for verbs in (expect, select):
        monkeypatch.setattr(verbs, "project_file", Path)
