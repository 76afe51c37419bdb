"""``impi bench --profile``: what a profiled job leaves, and what is refused."""

from __future__ import annotations

import cProfile
import pstats
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.cli.impi import main
from impi.tools.bench.measures.effort import Effort
from impi.tools.bench.measures.suite import experiments
from impi.tools.bench.profiles import hottest, profiled


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """Restore the handler of SIGTERM, which a run in this process changes."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_every_job_of_ours_has_a_name_of_its_own() -> None:
    chosen = list(experiments(["bandwidth", "local-only"], ["pure", "mpich"], Effort()))
    named = list(profiled(chosen, Path("/profiles")))
    assert [name for name, _ in named] == [
        *(
            "bandwidth-pure+pure",
            "bandwidth-pure+pure-2",
            "bandwidth-pure+mpich",
            "bandwidth-pure+mpich-2",
        ),
        *(
            "bandwidth-mpich+mpich",
            "bandwidth-mpich+mpich-2",
            "local-only-mpich",
            "local-only-mpich-2",
        ),
    ]
    assert [job.profile for _, job in named] == [
        f"/profiles/{name}" for name, _ in named
    ]


def test_the_hottest_functions_of_all_ranks(tmp_path: Path) -> None:
    files = []
    for rank in range(2):
        profile = cProfile.Profile()
        with profile:
            sorted(range(200_000), key=lambda number: -number)
        files.append(tmp_path / f"x-rank{rank}.prof")
        profile.dump_stats(files[-1])
    found = hottest(files, 2)
    assert len(found) == 2
    assert found[0].seconds >= found[1].seconds > 0
    assert 0 < found[1].share <= found[0].share <= 1
    calls = {hot.where.rpartition(" ")[2]: hot.calls for hot in hottest(files, 99)}
    assert calls["<lambda>"] == 400_000
    assert any(
        hot.where.startswith("tests/tools/bench/test_profiles.py:") for hot in found
    )


def test_a_profiled_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "made"
    assert (
        main(
            ["bench", "rate", "--vendors", "pure", "--quick", "--profile", str(folder)]
        )
        == 0
    )
    out, err = capsys.readouterr()
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [
        "rate-pure+pure-rank0.prof",
        "rate-pure+pure-rank1.prof",
    ]
    called = [{name for _, _, name in pstats.Stats(str(file)).stats} for file in files]  # type: ignore[attr-defined]
    assert "sender" in called[0]
    assert "receiver" in called[1]
    assert "rate-pure+pure: IMPI pure:1+pure:1, all ranks together" in out
    assert "self s" in out
    assert "ratios" not in out
    assert "a profiled run is not a measurement" in err


def test_a_job_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("impi.tools.bench.measures.pairs._STREAM", ("--nonsense",))
    monkeypatch.setattr("impi.tools.bench.timed_jobs._LIMIT_S", 60.0)
    assert (
        main(
            ["bench", "bidirectional", "--vendors", "pure", "--profile", str(tmp_path)]
        )
        == 1
    )
    assert (
        "impi bench: bidirectional-pure+pure: IMPI pure:1+pure:1 failed; client"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--profile", "FILE"], "is not a folder; name one, or one to be made"),
        (
            ["--profile", "FILE/below"],
            "cannot be made: Not a directory; name another folder",
        ),
        (
            ["--profile", "gone/below"],
            "cannot be made: No such file or directory; name another folder",
        ),
        (
            ["--profile", "", "--json", "x.json"],
            "makes no rows: leave out --runs, --json and --plot",
        ),
        (
            ["--profile", "made", "--runs", "9"],
            "makes no rows: leave out --runs, --json and --plot",
        ),
        (
            ["compare", "a", "b", "--profile", "made"],
            "compare measures nothing, so it takes no --sizes",
        ),
    ],
)
def test_mistakes_are_one_sentence(
    argv: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").touch()
    assert (
        main(
            [
                "bench",
                *([] if "compare" in argv else ["latency", "--vendors", "pure"]),
                *argv,
            ]
        )
        == 4
    )
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]
