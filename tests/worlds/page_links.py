"""Pages that were written, read again: their tags, and their links, which must lead somewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

VOID = ("meta", "link", "input", "br")


class Page(HTMLParser):
    """The tags of a page, each closed that was opened, and its links."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(file.read_text("utf-8"))
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_links(top: Path) -> int:
    """Follow each link of each page; return how many pages there are."""
    pages = list(top.rglob("index.html"))
    for page in pages:
        for link in Page(page).links:
            if link not in ("#", "#main", "data:,", "https://tracker.example/41"):
                assert (page.parent / unquote(link)).is_file(), f"{page}: {link}"
    return len(pages)


def troubles_of(shown: Any) -> list[str]:
    """Return a list that gets what a page in a browser says on its console, and its errors."""
    troubles: list[str] = []
    shown.on("console", lambda message: troubles.append(message.text))
    shown.on("pageerror", lambda error: troubles.append(str(error)))
    return troubles


def check_for_everybody(shown: Any, width: int) -> None:
    """Check a page in a browser: nothing to scroll sideways but tables, and no finding of axe."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="axe is missing: make proofs installs it",
    )
    assert shown.evaluate("document.documentElement.scrollWidth") == width, shown.url
    found = axe.Axe().run(shown).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], shown.url
