"""The judge of the compat run, on made-up results; and one module for real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compat_judge import (
    LEAST_LAYERABLE,
    LISTS,
    MOST_LOST,
    Gap,
    behind,
    faults,
    read_gaps,
    read_list,
    standing,
    table,
    unmeasured,
)
from compat_run import Layout, Ran, read, run_module

MIXED = Layout("mpich:1,pure:2")
OWN = Layout("own:mpich:3")
TEST = "test_a.TestA.testOne"


def ran(layout: Layout, outcome: str | None, *, trouble: str = "") -> Ran:
    outcomes = {} if outcome is None else {TEST: outcome}
    return Ran(
        "test_a", layout, outcomes, dict.fromkeys(outcomes, "rank 1: why"), trouble
    )


def test_layouts() -> None:
    handled = Layout("standard/mpich:1,pure:2")
    assert (handled.clients, handled.procs, handled.own, handled.handles) == (
        MIXED.clients,
        3,
        False,
        "standard",
    )
    assert MIXED.handles == ""
    threads = Layout("2x/mpich:1,pure:2")
    assert (threads.clients, threads.procs, threads.own, threads.handles) == (
        MIXED.clients,
        6,
        False,
        "",
    )
    assert (threads.endpoints, MIXED.endpoints, handled.endpoints) == (2, 0, 0)
    assert (MIXED.clients, MIXED.procs, MIXED.own) == (
        [("mpich", 1), ("pure", 2)],
        3,
        False,
    )
    assert (OWN.clients, OWN.procs, OWN.own) == ([("mpich", 3)], 3, True)


@pytest.mark.parametrize(
    ("ours", "own", "gaps", "expected"),
    [
        pytest.param("passed", "passed", [], "", id="both pass"),
        pytest.param(
            "failed",
            "passed",
            [],
            "failed, though a vendor passes it (rank 1: why)",
            id="only we fail",
        ),
        pytest.param(
            "skipped",
            "passed",
            [],
            "skipped, though a vendor passes it",
            id="only we skip",
        ),
        pytest.param(
            "unfinished",
            "passed",
            [],
            "unfinished, though a vendor passes it",
            id="we hang",
        ),
        pytest.param(
            None,
            "passed",
            [],
            "did not run, though a vendor passes it",
            id="it never ran",
        ),
        pytest.param("failed", "skipped", [], "", id="nobody passes"),
        pytest.param("failed", "passed", [Gap(TEST, "C")], "", id="a gap"),
        pytest.param(
            "failed", "passed", [Gap("test_a.*", "C")], "", id="a gap of a module"
        ),
        pytest.param(
            "passed",
            "passed",
            [Gap(TEST, "C")],
            f"unexpected pass of {TEST}",
            id="no gap any more",
        ),
        pytest.param(
            "skipped",
            "skipped",
            [Gap("test_b.*", "C")],
            "",
            id="a gap that did not run",
        ),
    ],
)
def test_faults(ours: str | None, own: str, gaps: list[Gap], expected: str) -> None:
    found = faults([ran(MIXED, ours)], [ran(OWN, own)], gaps)
    assert len(found) == bool(expected)
    assert expected in "".join(found)


def test_another_number_of_procs_is_no_measure() -> None:
    assert (
        faults([ran(MIXED, "failed")], [ran(Layout("own:mpich:2"), "passed")], []) == []
    )


def test_trouble_of_a_job_is_a_fault() -> None:
    [found] = faults(
        [ran(MIXED, "passed", trouble="exit codes [1]")], [ran(OWN, "passed")], []
    )
    assert found == "test_a on mpich:1,pure:2: exit codes [1]"


def test_no_measure_is_a_fault() -> None:
    [found] = faults(
        [ran(MIXED, "failed")], [ran(OWN, None, trouble="0 of 3 ranks reported")], []
    )
    assert found == "test_a on own:mpich:3: 0 of 3 ranks reported"
    assert (
        faults(
            [ran(MIXED, "failed")],
            [ran(OWN, None, trouble="x")],
            [Gap("test_a.*", "C")],
        )
        == []
    )


@pytest.mark.parametrize(
    ("plain", "handled", "gaps", "expected"),
    [
        ("passed", "passed", [], ""),
        ("failed", "failed", [], ""),
        ("skipped", "failed", [], ""),
        (
            "passed",
            "failed",
            [],
            "failed with handles, though impi.MPI passes it (rank 1: why)",
        ),
        ("passed", "skipped", [], "skipped with handles"),
        ("passed", None, [], "did not run with handles"),
        ("passed", None, [Gap(TEST, "C")], ""),
    ],
)
def test_what_is_behind(
    plain: str, handled: str | None, gaps: list[Gap], expected: str
) -> None:
    found = behind(
        [ran(MIXED, plain)], [ran(Layout(f"standard/{MIXED.name}"), handled)], gaps
    )
    assert len(found) == bool(expected)
    assert expected in "".join(found)


def test_trouble_with_handles() -> None:
    handled = [ran(Layout(f"standard/{MIXED.name}"), "passed", trouble="x")]
    assert behind([ran(MIXED, "passed")], handled, []) == [
        f"test_a on standard/{MIXED.name}: x"
    ]
    assert behind([ran(MIXED, "passed", trouble="y")], handled, []) == []


def test_table() -> None:
    lines = table([ran(MIXED, "passed"), ran(OWN, "failed", trouble="x")])
    assert [line.split() for line in lines] == [
        ["module", "mpich:1,pure:2", "own:mpich:3"],
        ["test_a", "1/0/0", "0/0/1!"],
        ["total", "1/0/0", "0/0/1"],
    ]


CLASS_A = frozenset(f"test_a.TestA.test{i}" for i in range(40))
LAYERABLE = frozenset(f"test_b.TestB.test{i}" for i in range(680))


def both(layout: Layout, class_a: int, layerable: int) -> list[Ran]:
    """The modules of two lists on one layout, with the number of tests of each that pass."""
    found = []
    for module, tests, passed in (
        ("test_a", CLASS_A, class_a),
        ("test_b", LAYERABLE, layerable),
    ):
        outcomes = {
            test: "passed" if int(test.partition(".test")[2]) < passed else "skipped"
            for test in tests
        }
        found.append(Ran(module, layout, outcomes))
    return found


def judged(ours: list[Ran], own: list[Ran]) -> tuple[list[str], list[str]]:
    return standing(ours, own, {"class A": CLASS_A, "layerable": LAYERABLE}, MIXED)


@pytest.mark.parametrize(
    ("class_a", "layerable", "expected"),
    [
        (40, 680, []),
        (15, LEAST_LAYERABLE, []),
        (15, 599, ["mpich:1,pure:2: 599 layerable tests pass, fewer than 600"]),
        (
            14,
            600,
            [
                "mpich:1,pure:2: 16 tests of class A that a vendor passes do not, more than 15, such as "
            ],
        ),
        (0, 0, ["mpich:1,pure:2: 0 layerable", "mpich:1,pure:2: 30 tests of class A"]),
    ],
)
def test_standing(class_a: int, layerable: int, expected: list[str]) -> None:
    own = [
        *both(Layout("own:mpich:3"), 30, 650),
        *both(Layout("own:openmpi:3"), 20, 660),
    ]
    lines, found = judged(both(MIXED, class_a, layerable), own)
    counts = f"class A {class_a} of 40 (30 on own:mpich:3), layerable {layerable} of 680 (660 on own:openmpi:3)"
    assert lines == [f"mpich:1,pure:2: {counts}"]
    assert len(found) == len(expected)
    assert all(
        sentence.startswith(begin)
        for sentence, begin in zip(found, expected, strict=True)
    )


def test_only_one_layout_is_judged() -> None:
    lines, found = judged(both(Layout("pure:3"), 0, 0), both(OWN, 40, 680))
    assert (len(lines), found) == (1, [])
    other = judged(both(MIXED, 0, 680), both(Layout("own:mpich:2"), 40, 680))
    assert "of 680 (" not in other[0][0]  # another number of procs is not a measure


def test_what_did_not_run_is_not_judged() -> None:
    whole = both(MIXED, 0, 0), both(OWN, 40, 680)
    for ours, own in (
        (whole[0][:1], whole[1]),
        (whole[0], whole[1][:1]),
        (whole[0], []),
    ):
        lines, found = judged(ours, own)
        assert (len(lines), found) == (2, [])
        assert re.match(
            "  not judged: [12] modules did not run, such as test_[ab]$", lines[1]
        )


def test_what_need_not_be_measured() -> None:
    gaps = [Gap("test_a.TestB.*", "C"), Gap("test_a.TestC.*", "C")]
    assert unmeasured(gaps, frozenset({"test_a.TestB.testOne"})) == ["test_a.TestC.*"]


def test_the_lists() -> None:
    class_a, layerable = (read_list(LISTS[name]) for name in ("class A", "layerable"))
    assert (len(class_a), len(layerable), class_a & layerable) == (
        926,
        680,
        frozenset(),
    )
    assert all(
        re.fullmatch(r"test_\w+\.\w+\.test\w+", test) for test in class_a | layerable
    )
    assert (LEAST_LAYERABLE, MOST_LOST) == (600, 15)


def test_the_worst_rank_counts(tmp_path: Path) -> None:
    head = '{"clients": 2}\n'
    (tmp_path / "0.jsonl").write_text(
        head + f'["{TEST}", "unfinished", ""]\n["{TEST}", "passed", ""]\n'
    )
    (tmp_path / "1.jsonl").write_text(
        head + f'["{TEST}", "failed", "a\\nb"]\n["{TEST}", "passed", ""]\n'
    )
    (tmp_path / "2.jsonl").write_text(head)
    found = read("test_a", MIXED, tmp_path)
    assert (found.outcomes, found.notes, found.trouble) == (
        {TEST: "failed"},
        {TEST: "rank 1: b"},
        "",
    )


@pytest.mark.parametrize(
    ("clients", "ranks", "expected"),
    [(1, 3, "rank 2 saw IMPI_CLIENT_SIZE 1, not 2"), (2, 2, "2 of 3 ranks reported")],
)
def test_the_job_is_what_was_asked(
    clients: int, ranks: int, expected: str, tmp_path: Path
) -> None:
    for rank in range(ranks):
        (tmp_path / f"{rank}.jsonl").write_text(f'{{"clients": {clients}}}\n')
    assert read("test_a", MIXED, tmp_path).trouble == expected


def test_every_gap_has_a_reason(tmp_path: Path) -> None:
    for name in ("gaps.toml", "handles.toml", "endpoints.toml"):
        assert all(gap.reason for gap in read_gaps(Path(__file__).parent / name))
    bad = tmp_path / "gaps.toml"
    bad.write_text('[[gap]]\ntests = ["test_a.*"]\nreason = " "\n')
    with pytest.raises(ValueError, match="has no reason"):
        read_gaps(bad)


def test_a_module_for_real(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import unittest\n"
        "from mpi4py import MPI\n"
        "class TestA(unittest.TestCase):\n"
        "    def testOne(self):\n"
        "        self.assertEqual(MPI.COMM_WORLD.allreduce(1), 3)\n"
        "    def testTwo(self):\n"
        "        self.assertNotEqual(MPI.COMM_WORLD.Get_rank(), 2)\n"
        "    def testThree(self):\n"
        "        self.skipTest('never')\n"
    )
    found = run_module(tmp_path, "test_a", Layout("pure:1,pure:2"), 60.0)
    assert found.trouble == ""
    assert found.outcomes == {
        TEST: "passed",
        "test_a.TestA.testTwo": "failed",
        "test_a.TestA.testThree": "skipped",
    }
    assert found.notes["test_a.TestA.testTwo"].startswith("rank 2: AssertionError")


@pytest.mark.parametrize("words", ["--tls", "--tls --lazy --external32"])
def test_a_module_with_options(words: str, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import unittest\n"
        "from mpi4py import MPI\n"
        "class TestA(unittest.TestCase):\n"
        "    def testOne(self):\n"
        "        self.assertEqual(MPI.COMM_WORLD.allreduce(1), 2)\n"
    )
    found = run_module(
        tmp_path, "test_a", Layout("pure:1,pure:1"), 60.0, options=words.split()
    )
    assert (found.trouble, found.outcomes) == ("", {TEST: "passed"})


def test_a_server_whose_clients_were_refused_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compat_run._BEHIND_FAILED_S", 1.0)
    (tmp_path / "test_a.py").write_text("")
    found = run_module(tmp_path, "test_a", MIXED, 600.0, options=["--of-nobody"])
    assert found.trouble.startswith("0 of 3 ranks reported; exit codes [")
    assert "did not end within" in found.trouble
    assert found.seconds < 300


def test_a_module_with_handles(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import unittest\n"
        "from mpi4py import MPI\n"
        "class TestA(unittest.TestCase):\n"
        "    def testOne(self):\n"
        "        self.assertEqual(MPI.COMM_WORLD.allreduce(1), 2)\n"
        "        self.assertTrue(MPI.COMM_WORLD.handle)\n"
    )
    found = run_module(tmp_path, "test_a", Layout("mpich/pure:1,pure:1"), 60.0)
    assert (found.trouble, found.outcomes) == ("", {TEST: "passed"})


def test_a_module_but_for_some(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import unittest\n"
        "class TestA(unittest.TestCase):\n"
        "    def testOne(self): pass\n"
        "    def testTwo(self): pass\n"
        "class TestB(TestA): pass\n"
    )
    found = run_module(
        tmp_path,
        "test_a",
        Layout("pure:1"),
        60.0,
        ["test_a.TestB.*", "test_a.*.testTwo", "test_b.*"],
    )
    assert (found.trouble, found.outcomes) == ("", {TEST: "passed"})


def test_a_module_with_endpoints(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import unittest\n"
        "from mpi4py import MPI\n"
        "class TestA(unittest.TestCase):\n"
        "    def testOne(self):\n"
        "        self.assertEqual(MPI.COMM_WORLD.allgather(MPI.COMM_WORLD.Get_rank()), [0, 1, 2, 3])\n"
        "        self.assertEqual(MPI.COMM_SELF.allgather(1), [1])\n"
        "    def testTwo(self):\n"
        "        self.assertNotEqual(MPI.COMM_WORLD.Get_rank(), 3)\n"
    )
    found = run_module(tmp_path, "test_a", Layout("2x/pure:1,mpich:1"), 60.0)
    assert found.trouble == ""
    assert found.outcomes == {TEST: "passed", "test_a.TestA.testTwo": "failed"}
    assert found.notes["test_a.TestA.testTwo"].startswith("rank 3: AssertionError")
