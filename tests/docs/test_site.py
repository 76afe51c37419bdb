"""The site is built without a warning, has every page, and its links lead somewhere."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from pages import PAGES, TOP


class Links(HTMLParser):
    """The links of a page, and the places in it to which others may lead."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = {"", "top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "srcset" and value:
                self.links += [part.split()[0] for part in value.split(",")]
            elif name in ("id", "name") and value:
                self.ids.add(value)


def read(site: Path) -> dict[Path, Links]:
    found = {}
    for path in site.rglob("*.html"):
        found[path] = links = Links()
        links.feed(path.read_text("utf-8"))
    return found


def broken(site: Path) -> Iterator[str]:
    pages = read(site)
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue

            target = (
                (path.parent / unquote(parts.path)).resolve() if parts.path else path
            )
            if not target.exists():
                yield f"{path.relative_to(site)} -> {link}"
            elif target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{path.relative_to(site)} -> {link}: there is no such place"


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="x"></h1><a href="b.html#y"></a><a href="#x"></a><a href="https://a/b"></a>'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#z"></a><img src="c.png">')
    assert sorted(broken(tmp_path)) == [
        "a.html -> b.html#y: there is no such place",
        "b.html -> a.html#z: there is no such place",
        "b.html -> c.png",
    ]


@pytest.mark.proof
def test_the_site(tmp_path: Path) -> None:
    if find_spec("sphinx") is None or find_spec("furo") is None:
        pytest.skip("sphinx is not installed: 'make proofs' or 'make docs' does that")
    site = tmp_path / "site"
    done = subprocess.run(
        [str(TOP / "ci/site.sh"), str(site)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert not list(broken(site))

    made = {path.relative_to(site) for path in site.rglob("*.html")}
    pages = {page.relative_to(TOP).with_suffix(".html") for page in PAGES}
    assert not pages - made
    assert (site / "index.html").exists()
    contents = (site / "docs/README.html").read_text("utf-8")
    for caption in ("Guides", "How it works", "Decisions", "Reference", "Measurements"):
        assert f'<span class="caption-text">{caption}</span>' in contents
    for schema in (TOP / "docs/reference").glob("*.schema.json"):
        assert json.loads((site / "docs/reference" / schema.name).read_text("utf-8"))
    for path in made:
        assert str(TOP) not in (site / path).read_text("utf-8"), path
