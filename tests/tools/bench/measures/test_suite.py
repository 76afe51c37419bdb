"""Message sizes of the user's own, and the collectives that are measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from impi.cli.impi import main
from impi.tools.bench.experiment import Experiment, Line
from impi.tools.bench.measures.effort import COLLECTIVES, INSIDE, Effort
from impi.tools.bench.measures.suite import SIZED, experiments

PROGRAMS = Path(__file__).parents[4] / "impi" / "tools" / "bench" / "programs"
VENDORS = ["pure", "mpich"]


def _of(names: tuple[str, ...], *sizes: int) -> list[Experiment]:
    return list(experiments(names, VENDORS, Effort(sizes=sizes)))


@pytest.mark.parametrize("name", SIZED)
def test_every_measure_has_the_sizes_that_were_asked_for(name: str) -> None:
    for experiment in _of((name,), 16, 4096):
        ours = experiment.ours
        assert "16,4096" in ours.argv
        assert {line.size for line in experiment.lines} <= {0, 16, 4096}
        assert {line.size for line in experiment.lines} >= {16, 4096}
        assert not [
            line.bound
            for line in experiment.lines
            if line.size and line.bound and _is_sized(line)
        ]


def _is_sized(line: Line) -> bool:
    """Not a program in C beside the same in Python, which must be as fast at any size."""
    return not line.variant.startswith("C, ")


def _bounds(name: str, *sizes: int) -> dict[int, str]:
    return {
        line.size: str(line.bound)
        for e in _of((name,), *sizes)
        for line in e.lines
        if line.bound and _is_sized(line)
    }


def test_bounds_stay_with_the_sizes_that_they_name() -> None:
    assert _bounds("local", 8, 1024, 65535, 65536, 1 << 22) == {
        8: "<= +3 us",
        65536: "<= 1.1 x",
        1 << 22: "<= 1.1 x",
    }
    assert _bounds("local-only", 16, 1 << 17) == {0: "<= +3 us", 1 << 17: "<= 1.1 x"}
    assert set(_bounds("latency", 24, 8, 16)) >= {8}
    assert set(_bounds("bandwidth", 8, 1 << 24)) == {1 << 24}
    assert set(_bounds("native", 8, 1 << 24)) == {1 << 24}
    assert set(_bounds("rate", 8, 64)) == {8}


def test_sockets_move_as_much_or_are_not_there() -> None:
    for experiment in _of(("latency", "rate"), 16):
        assert not [
            job for job in experiment.references if job.title.startswith("plain")
        ]
    streams = [
        job.argv
        for e in _of(("bandwidth",), 16, 4096)
        for job in e.references
        if job.title.startswith("plain")
    ]
    assert {argv[argv.index("--size") + 1] for argv in streams} == {"16", "4096"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ["blocked", "--sizes", "8"],
            "--sizes is not for blocked; name measures of latency, ",
        ),
        (
            ["--sizes", "8"],
            "--sizes is not for startup, idle; name measures of latency, ",
        ),
        (
            ["latency", "--sizes", "8,many"],
            "'many' is not a size; write a number and one of B, KB",
        ),
        (["latency", "--sizes", ""], "'' is not a size"),
        (
            ["latency", "--sizes", "8,2G"],
            "--sizes 8,2G: messages of more than 1 GiB are not measured",
        ),
        (
            ["latency", "--sizes", "0"],
            "--sizes 0: messages of no octets are not measured",
        ),
        (
            ["latency", "collectives", "--sizes", "8,12"],
            "latency has numbers of 8 octets, and 12 is not a multiple of 8",
        ),
        (
            ["show", "run.json", "--sizes", "8"],
            "show measures nothing, so it takes no --sizes",
        ),
    ],
)
def test_sizes_that_cannot_be(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["bench", *argv, *([] if "show" in argv else ["--vendors", "pure"])]) == 4
    )
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_the_collectives_are_those_of_the_program() -> None:
    """Over impi.MPI in a process alone: each is called, and nobody has to be waited for."""
    assert {"Alltoallw", "Exscan", "Reduce_scatter_block", "Scan"} == set(
        COLLECTIVES
    ) - set(INSIDE)
    code = "import impi.MPI, sys; sys.modules['mpi4py.MPI'] = impi.MPI; import mpi4py; mpi4py.MPI = impi.MPI\n"
    code += f"import runpy; sys.path.insert(0, {str(PROGRAMS)!r}); sys.argv[0] = {str(PROGRAMS / 'collective.py')!r}\n"
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    for options, begin in (([], ""), (["--overlap"], "I")):
        argv = [
            sys.executable,
            "-c",
            code,
            "--iterations",
            "2",
            "--skip",
            "1",
            "--sizes",
            "8,64",
            *options,
        ]
        ended = subprocess.run(
            argv, capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended.stderr
        told = {line.split("/")[0] for line in ended.stdout.splitlines() if "/" in line}
        assert told == {
            begin + (name.lower() if begin else name) for name in COLLECTIVES
        }
