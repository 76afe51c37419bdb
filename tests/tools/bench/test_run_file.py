"""A run as a file."""

from __future__ import annotations

from pathlib import Path

from impi.base.machine import machine
from impi.tools.bench.rows import Row, at_most
from impi.tools.bench.run_file import Report, load, save


def _row(
    *values: float,
    better: str = "lower",
    references: tuple[float, ...] = (),
    measure: str = "latency",
) -> Row:
    return Row(
        measure=measure,
        vendors="pure+pure",
        unit="us",
        better=better,
        values=values,
        references=references,
        against="sockets" if references else "",
        bound=at_most(2) if references else None,
    )


def _file(folder: Path, name: str, *rows: Row) -> str:
    file = folder / name
    save(
        Report(
            rows=rows, machine=machine(), versions={"impi": "1"}, options={"runs": 9}
        ),
        file,
    )
    return str(file)


def test_a_report_there_and_back(tmp_path: Path) -> None:
    rows = (_row(1, 2, 3, references=(1, 1, 1)), _row(4))
    loaded = load(Path(_file(tmp_path, "a.json", *rows)))
    assert loaded.rows == rows
    assert loaded.versions == {"impi": "1"}
