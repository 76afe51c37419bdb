"""Jobs with a table of decisions: forced algorithms, mixed vendors, reproducible bits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pairs import pairs

from impi.protocol.decisions import ALGORITHMS, FORMAT

PROGRAMS = Path(__file__).parents[3] / "jobs" / "programs"
TUNED = str(PROGRAMS / "tuned.py")
REPRODUCED = str(PROGRAMS / "reproduced.py")

FORCED: dict[str, dict[str, list[dict[str, Any]]]] = {
    **{
        name: {
            operation: [{"algorithm": name}]
            for operation, names in ALGORITHMS.items()
            if name in names
        }
        for name in ("flat", "binomial", "exchange")
    },
    "chain": {"bcast": [{"algorithm": "chain"}], "scatter": [{"algorithm": "chain"}]},
    "segments": {
        "bcast": [
            {"algorithm": "chain", "octets": 1000, "segment": 100},
            {"algorithm": "binomial", "segment": 9999},
        ]
    },
    "elimination": {
        operation: [{"algorithm": "elimination"}]
        for operation in ("reduce", "allreduce")
    },
    "threshold": {
        operation: [{"algorithm": "elimination", "segment": 1000}]
        for operation in ("reduce", "allreduce")
    },
}


def table(folder: Path, decisions: dict[str, list[dict[str, Any]]]) -> str:
    path = folder / "tuning.json"
    path.write_text(json.dumps({"format": FORMAT, "decisions": decisions}))
    return str(path)


@pytest.mark.parametrize(
    ("forced", "clients"),
    pairs([*FORCED], [["mpich:2", "openmpi:1", "pure:1"], ["pure:1"] * 5]),
)
def test_every_algorithm(
    forced: str, clients: list[str], tmp_path: Path, run_job: Callable[..., Any]
) -> None:
    path = table(tmp_path, FORCED[forced])
    result = run_job([TUNED, "tuned"], clients, options={0: ["--tuning", path]})
    assert set(result.codes) == {0}, str(result)
    assert result.out == "all right\n"


@pytest.mark.parametrize(
    "clients", [["pure:1"] * 2, ["mpich:2", "pure:2"], ["pure:1"] * 3]
)
@pytest.mark.parametrize("form", [[], ["--external32"]], ids=["native", "external32"])
def test_where_nobody_has_a_table(
    clients: list[str], form: list[str], run_job: Callable[..., Any]
) -> None:
    result = run_job(
        [TUNED, "tuned"], clients, options=dict.fromkeys(range(len(clients)), form)
    )
    assert set(result.codes) == {0}, str(result)


def test_one_client_asks_for_chapter_4(run_job: Callable[..., Any]) -> None:
    result = run_job(
        [TUNED, "specified"], ["pure:1"] * 2, options={1: ["--tuning", "specification"]}
    )
    assert set(result.codes) == {0}, str(result)
    assert "is not used" not in "".join(client.err for client in result.clients)


def test_from_the_environment_and_not_only_from_client_0(
    tmp_path: Path, run_job: Callable[..., Any]
) -> None:
    path = table(tmp_path, FORCED["chain"])
    result = run_job(
        [TUNED, "tuned"], ["pure:1"] * 3, environ_of={2: {"IMPI_TUNING": path}}
    )
    assert set(result.codes) == {0}, str(result)


def test_one_strict_client_and_all_is_as_specified(
    tmp_path: Path, run_job: Callable[..., Any]
) -> None:
    path = table(tmp_path, FORCED["chain"])
    options = {0: ["--tuning", path], 2: ["--impi-version", "0.0"]}
    result = run_job([TUNED, "plain"], ["pure:1"] * 3, options=options)
    assert set(result.codes) == {0}, str(result)
    assert (
        "the tuning (--tuning or IMPI_TUNING) is not used: at least one client offers no"
        in result.clients[0].err
    )


def test_tables_that_differ(tmp_path: Path, run_job: Callable[..., Any]) -> None:
    (tmp_path / "other").mkdir()
    options = {
        0: ["--tuning", table(tmp_path, FORCED["chain"])],
        1: ["--tuning", table(tmp_path / "other", FORCED["flat"])],
    }
    result = run_job([TUNED, "tuned"], ["pure:1"] * 2, options=options)
    assert 0 not in result.codes[1:], str(result)
    assert "clients 0 and 1 have different tables of --tuning" in "".join(
        client.err for client in result.clients
    )


SAME = ["--collectives", "reduce=reproducible"]


def bits(run_job: Callable[..., Any], clients: list[str], options: list[str]) -> str:
    result = run_job(
        [REPRODUCED], clients, options=dict.fromkeys(range(len(clients)), options)
    )
    assert set(result.codes) == {0}, str(result)
    return str(result.out)


@pytest.mark.parametrize(
    "layouts",
    [
        (["pure:2"], ["mpich:1", "pure:1"]),
        (["mpich:3"], ["pure:1", "openmpi:2"], ["pure:1", "mpich:1", "openmpi:1"]),
        pytest.param(
            (
                ["openmpi:4"],
                ["pure:2", "mpich:2"],
                ["pure:1", "mpich:3"],
                ["pure:1"] * 4,
            ),
            marks=pytest.mark.proof,
        ),
        pytest.param(
            (["pure:5"], ["mpich:2", "openmpi:2", "pure:1"]), marks=pytest.mark.proof
        ),
    ],
    ids=["2", "3", "4", "5"],
)
def test_bits_are_the_same_in_every_layout(
    layouts: tuple[list[str], ...], tmp_path: Path, run_job: Callable[..., Any]
) -> None:
    found = {bits(run_job, clients, SAME) for clients in layouts}
    path = table(tmp_path, FORCED["elimination"])
    found.add(bits(run_job, layouts[-1], [*SAME, "--tuning", path]))
    assert len(found) == 1
