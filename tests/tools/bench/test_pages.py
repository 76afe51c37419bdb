"""Pages that are written from a run; those of the tree say what its run says."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.cli.impi import main
from impi.tools.bench.pages import FOLDER, KEPT, page, write_pages
from impi.tools.bench.rows import Row, at_most
from impi.tools.bench.run_file import Report, load, save

MARK = "<!-- figures: latency; Python, 1+1; mpich's own TCP -->\n"
END = "<!-- end of figures -->\n"


def row(vendors: str, size: int, *values: float, **more: object) -> Row:
    given: dict[str, object] = {
        "measure": "latency",
        "variant": "Python, 1+1",
        "unit": "us",
        "better": "lower",
        "against": "mpich's own TCP",
        "references": (10.0,) * len(values),
        "bound": at_most(1.6),
        **more,
    }
    return Row(vendors=vendors, size=size, values=values, **given)  # type: ignore[arg-type]


def report(*rows: Row) -> Report:
    return Report(
        rows=rows,
        machine={
            "processor": "Some 3000",
            "cores": 2,
            "system": "Linux 6",
            "load": [0.1, 0, 0],
        },
        versions={"impi": "0.1.0", "commit": "abc"},
        options={"runs": 9},
        when="2026-11-28T01:00:00+00:00",
    )


def test_pages_of_the_tree_say_what_its_run_says() -> None:
    """impi bench page docs/measurements/usual.json writes them anew."""
    kept = load(FOLDER / KEPT)
    marked = {path: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    written = {path.name for path, text in marked.items() if "<!-- figures:" in text}
    assert {"messages.md", "collectives.md", "start-up.md"} <= written
    for path, text in marked.items():
        assert page(kept, text) == text, (
            f"{path.name}: run 'impi bench page docs/measurements/{KEPT}'"
        )
        assert "This run has not measured it" not in text, path.name


def test_rows_become_a_table_with_a_column_for_each_pair() -> None:
    rows = (
        row("pure+pure", 8, 15),
        row("pure+mpich", 8, 20),
        row("pure+pure", 65536, 12, bound=None),
    )
    text = page(
        report(*rows, row("x+y", 8, 1, variant="C, 1+1")),
        f"before\n\n{MARK}old\n{END}after\n",
    )
    assert text == (
        f"before\n\n{MARK}"
        "|  | pure+pure | pure+mpich | bound |\n"
        "| --- | --- | --- | --- |\n"
        "| latency, 8 octets (us) | 1.5 x (15) | **2 x (20)** | <= 1.6 x |\n"
        "| latency, 64 KiB (us) | 1.2 x (12) |  |  |\n"
        f"{END}after\n"
    )


def test_what_has_no_reference_or_no_value_is_said() -> None:
    rows = (row("a+b", 8, 15, references=(), bound=None), row("b+b", 8, error="lost"))
    text = page(report(*rows), MARK + END)
    assert "| 15 | not measured | <= 1.6 x |" in text
    assert "This run has not measured it." in page(report(), MARK + END)


def test_the_origin_has_commit_date_machine_and_settings() -> None:
    text = page(report(), f"<!-- figures: origin -->\n{END}")
    assert (
        "Commit abc, 2026-11-28. Some 3000, 2 cores, Linux 6, load 0.1 at the start."
        in text
    )
    assert "Medians of 9 rounds, default settings." in text.replace("\n", " ")
    assert max(map(len, text.splitlines())) <= 100


def test_a_run_is_kept_beside_the_pages_and_written_twice_alike(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(MARK + END)
    (tmp_path / "b.md").write_text("no figures\n")
    measured = report(row("pure+pure", 8, 10.0499996))
    assert write_pages(measured, tmp_path) == [tmp_path / "a.md"]
    kept, text = load(tmp_path / KEPT), (tmp_path / "a.md").read_text()
    assert kept.rows[0].values == (10.05,)
    assert "(10.1)" in text  # as what is kept has it
    write_pages(kept, tmp_path)
    assert (tmp_path / "a.md").read_text() == text
    assert (tmp_path / "b.md").read_text() == "no figures\n"


def test_a_mark_that_asks_for_nothing_is_a_mistake() -> None:
    with pytest.raises(
        UsageError,
        match="a mark says 'figures: MEASURES; VARIANT; REFERENCE', not 'latency'",
    ):
        page(report(), f"<!-- figures: latency -->\n{END}")


def test_the_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(report(row("pure+pure", 8, 15)), tmp_path / "run.json")
    pages = tmp_path / "pages"
    monkeypatch.setattr("impi.tools.bench.pages.write_pages.__defaults__", (pages,))
    assert main(["bench", "page", str(tmp_path / "run.json")]) == 4
    assert "figures go into the pages of a checkout" in capsys.readouterr().err
    pages.mkdir()
    (pages / "a.md").write_text(MARK + END)
    assert main(["bench", "page", str(tmp_path / "run.json")]) == 0
    assert capsys.readouterr().out == f"{pages / 'a.md'}\n"
    assert main(["bench", "page"]) == 4
    assert "page needs one file" in capsys.readouterr().err
