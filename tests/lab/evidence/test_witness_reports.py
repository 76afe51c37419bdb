from __future__ import annotations

import hashlib
import json
from pathlib import Path

import impi
from impi.lab.evidence.witness_reports import planned_sources, read_ranks


def line(kind: str, value: object) -> str:
    return json.dumps({"kind": kind, "value": value})


def test_files_and_identity_become_one_process():
    printed = "\n".join(
        [
            line("identity", [{"pid": 7, "libraries": {"/x/libmpi.so": "aa"}}]),
            line(
                "files",
                {
                    "init-7": {
                        "pid": 7,
                        "rank": 1,
                        "size": 4,
                        "nonce": "n",
                        "node_nonce": "m",
                        "local": {"messages": 0},
                    },
                    "done-7": {
                        "pid": 7,
                        "performed": 3,
                        "failures": [],
                        "local": {"messages": 5},
                    },
                    "wrap-6": {"pid": 7, "status": 0, "ended": 1.5},
                    "wrap-8": {"pid": 9, "status": None},
                },
            ),
        ]
    )
    seven, nine = read_ranks("c0n0", 0, printed.encode())
    assert (
        seven.pid,
        seven.rank,
        seven.says.size,
        seven.checks.performed,
        seven.status,
    ) == (7, 1, 4, 3, 0)
    assert seven.process.libraries == {"/x/libmpi.so": "aa"}
    assert seven.says.local == {"messages": 5}
    assert (
        nine.pid,
        nine.rank,
        nine.process.libraries,
        nine.checks.performed,
        nine.status,
    ) == (
        9,
        None,
        None,
        None,
        None,
    )


def test_the_sources_that_are_not_as_planned_are_named():
    planned = planned_sources()
    assert (
        planned["impi"] == hashlib.sha256(Path(impi.__file__).read_bytes()).hexdigest()
    )

    def others(value: object) -> object:
        text = line(
            "identity",
            [
                {
                    "pid": 7,
                    "libraries": {},
                    **({"sources": value} if value is not None else {}),
                }
            ],
        )
        (rank,) = read_ranks(
            "c0n0", 0, f"{text}\n{line('files', {'init-7': {'pid': 7}})}".encode()
        )
        return rank.process.other_sources

    good = {"impi": planned["impi"], "impi.MPI": planned["impi.MPI"]}
    assert others(good) == ()
    assert others({**good, "impi.MPI": "unreadable"}) == ("impi.MPI",)
    assert others({**good, "impi.more": planned["impi"]}) == ("impi.more",)
    assert others({}) is None
    assert others(None) is None


def test_a_process_that_could_not_be_looked_at_has_no_libraries():
    text = line("identity", [{"pid": 7, "error": "gone", "libraries": {}}]) + "\n"
    (rank,) = read_ranks(
        "c0n0", 0, (text + line("files", {"init-7": {"pid": 7, "rank": 0}})).encode()
    )
    assert rank.process.libraries is None


def test_what_makes_no_sense_is_not_there():
    assert read_ranks("c0n0", 0, b"") == []
    assert read_ranks("c0n0", 0, b"Traceback\n{}\n[1]\n\xff\n") == []
    assert (
        read_ranks(
            "c0n0", 0, line("files", {"init-7": {"error": "cut"}, "wrap-1": 5}).encode()
        )
        == []
    )


def test_a_mute_process_has_the_rank_that_its_launcher_told_its_wrapper():
    files = {
        f"wrap-{pid}": {"pid": pid, "status": 0, "local": local}
        for pid, local in ((7, 1), (8, 0), (9, 5))
    }
    printed = line("files", files).encode()
    assert {seen.pid: seen.rank for seen in read_ranks("c1n0", 1, printed, [4, 5])} == {
        7: 5,
        8: 4,
        9: None,
    }
    assert {seen.rank for seen in read_ranks("c1n0", 1, printed)} == {None}
