"""The timeline of a cell as a page that stands alone."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from told_cells import CELL, hangs, ran

from impi.base.remote.supervised import Line
from impi.lab.judge.verdict import Verdict
from impi.lab.report.cell_timeline import Entry, merge
from impi.lab.report.evidence_files import write_seen
from impi.lab.report.timeline_html import Head, as_html
from impi.lab.run.collection import Seen


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(seen: Seen, verdict: Verdict, tmp_path) -> str:
    write_seen(CELL, seen, verdict, tmp_path / "cell")
    return (tmp_path / "cell/timeline.html").read_text("utf-8")


def test_the_page_stands_alone(tmp_path):
    text = page(*ran(hangs), tmp_path)
    parsed = Page(text)
    assert parsed.open == []
    for tag, attributes in parsed.tags:
        assert not {"src", "href", "srcset", "data", "action"} & attributes.keys(), tag
        assert tag not in ("link", "iframe", "object", "img", "base")
    assert not re.findall(r"url\(|@import|https?://", text)


def test_the_page_shows_why_and_where(tmp_path):
    seen, verdict = ran(hangs)
    text = page(seen, verdict, tmp_path)
    for words in (
        CELL.id,
        verdict.reason,
        "Recv(from rank 2, tag 99)",
        "client 0 (mpich) rank 1 on c0n0",
    ):
        assert words in text
    assert text.count('class="stuck"') > 2
    assert text.count('class="row ') == len(merge(seen, CELL.roster)) + 1


def test_a_page_of_a_pass_has_no_stuck_call(tmp_path):
    assert 'class="stuck"' not in page(*ran(), tmp_path)


def test_what_others_wrote_is_text(tmp_path):
    seen, verdict = ran()
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    seen = replace(seen, said={"server": (Line(at=1.0, stream="stderr", text=evil),)})
    text = page(seen, replace(verdict, outcome="fail", reason=evil), tmp_path)
    assert [tag for tag, _ in Page(text).tags].count("script") == 1
    assert "img" not in [tag for tag, _ in Page(text).tags]


def test_a_page_has_an_end():
    entries = [
        Entry(at=float(i), lane="rank 0", text="x", kind="DATA", to="rank 2")
        for i in range(9000)
    ]
    text = as_html(
        Head(title="t", outcome="pass", sentence="", facts={}), entries, CELL.roster
    )
    assert text.count('<div class="row data"') == 4000
    assert "5000 entries are left out here; timeline.txt has them all" in text
    assert Page(text).open == []


def test_a_page_of_nothing():
    Page(
        as_html(
            Head(title="t", outcome="error", sentence="no lab", facts={}),
            [],
            CELL.roster,
        )
    )
