"""LCOs across vendors: names, slots, all kinds of messages, bounds, and ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[5]
PROGRAM = str(Path(__file__).parents[4] / "jobs" / "programs" / "lcos.py")
PARTS = [
    "names", "point_to_point", "many_to_one", "own_message", "later", "gone", "capabilities", "collectives",
    "intercommunicator", "graph", "thousand", "unfreed",
]  # fmt: skip
THREE = ["mpich:2", "openmpi:2", "pure:1"]
TIGHT = ["--datalen", "1000", "--hiwater", "2", "--ackmark", "1"]
LAYOUTS = [
    pytest.param(THREE, {}, id="three vendors"),
    pytest.param(
        ["pure:2", "pure:1"], {0: TIGHT, 1: ["--external32"]}, id="tight, external32"
    ),
    pytest.param(["pure:1"], {}, id="one proc"),
    pytest.param(["pure:1", "mpich:1"], {}, id="one proc each"),
    pytest.param(
        ["pure:2", "pure:1"],
        {0: ["--hosts", "client"], 1: ["--hosts", "client"]},
        id="agents",
        marks=pytest.mark.proof,
    ),
    pytest.param(["mpich:3"], {}, id="mpich", marks=pytest.mark.proof),
    pytest.param(["openmpi:3"], {}, id="openmpi", marks=pytest.mark.proof),
]


def passes(result: Any, procs: int) -> None:
    assert set(result.codes) == {0}, str(result)
    assert result.out.split() == ["ok"] * procs, str(result)


@pytest.mark.parametrize(("clients", "options"), LAYOUTS)
def test_all_of_lcos(
    clients: list[str], options: dict[int, Sequence[str]], run_job: Callable[..., Any]
) -> None:
    result = run_job([PROGRAM, *PARTS], clients, options=options)
    passes(result, sum(int(client.partition(":")[2]) for client in clients))
    took = re.search(r"1000 LCOs made and named in ([\d.]+) s", str(result))
    assert took, str(result)
    # 0.1 s alone; the bound of a second is for a quiet machine
    assert float(took[1]) < 10


@pytest.mark.parametrize("level", [pytest.param("1", marks=pytest.mark.proof), "2"])
def test_collectives_of_lcos_are_verified(
    level: str, run_job: Callable[..., Any]
) -> None:
    passes(
        run_job(
            [PROGRAM, "collectives"],
            ["pure:2", "pure:1"],
            environ={"IMPI_VERIFY": level},
        ),
        3,
    )


def test_a_client_of_impi_0_0_only_has_no_lcos(run_job: Callable[..., Any]) -> None:
    passes(
        run_job(
            [PROGRAM, "strict"],
            ["pure:1", "pure:1"],
            options={1: ["--impi-version", "0.0"]},
        ),
        2,
    )


def test_the_channel_of_the_paper(run_job: Callable[..., Any]) -> None:
    result = run_job(
        [str(ROOT / "examples" / "lco" / "channel.py")],
        ["mpich:2", "openmpi:1", "pure:1"],
    )
    assert set(result.codes) == {0}, str(result)
    assert (
        result.out
        == "rank 0 to rank 2: 0 1 2 3 4 5 6 7 8 9\nrank 1 to rank 3: 0 1 2 3 4 5 6 7 8 9\n"
    )


def test_comm_dup_of_the_paper(run_job: Callable[..., Any]) -> None:
    result = run_job([str(ROOT / "examples" / "lco" / "comm_dup.py")], THREE)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "".join(
        f"{name}: sum of ranks 10, left neighbours 4 0 1 2 3\n"
        for name in ("first", "second")
    )


def test_a_farm_of_objects_over_three_vendors(run_job: Callable[..., Any]) -> None:
    result = run_job([str(ROOT / "examples" / "lco" / "taskfarm.py"), "20", "5"], THREE)
    assert set(result.codes) == {0}, str(result)
    lines = result.out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "one LCO for each object",
        "ranks and tags",
    ]
    assert all("20 objects, 5 tasks each, right: " in line for line in lines)
