"""A fixture for tests of pages: Debian's browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def browser() -> Iterator[Any]:
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: make proofs installs it"
    )
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is missing: install the package chromium")
    with api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()
