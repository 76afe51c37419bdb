"""The judge of the programs, on made-up outputs; the catalogue; and one small program for real."""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from compat_run import Layout
from programs_build import build
from programs_catalogue import REQUIREMENTS, Program, chosen, read_catalogue
from programs_judge import (
    Judged,
    Reason,
    counts,
    judge,
    not_installed,
    read_not_run,
    read_reasons,
    seen,
    unknown,
)
from programs_run import REFERENCES, Ran, end_all, reference, run, run_once

LAYOUT = Layout("mpich:1,pure:1")


def program(**options: object) -> Program:
    given = {
        "name": "group.one",
        "argv": (),
        "layouts": (LAYOUT,),
        "own": "mpich",
        "environ": {},
        **options,
    }
    return Program(**given)  # type: ignore[arg-type]


def ran(out: str, code: int | None = 0, err: str = "") -> Ran:
    return Ran(out, err, code)


LISTED = Reason(("group.one",), "no windows", says="NotImplementedError")


@pytest.mark.parametrize(
    ("ours", "own", "reason", "verdict", "why"),
    [
        pytest.param(
            ran("b\na\n"), ran("a\nb\n"), None, "same", "", id="order of lines"
        ),
        pytest.param(ran("a\n"), ran("a\nb\n"), None, "fault", "- b", id="a line less"),
        pytest.param(
            ran("a\na\n"), ran("a\n"), None, "fault", "+ a", id="a line twice"
        ),
        pytest.param(
            ran("a\n", 1),
            ran("a\n"),
            None,
            "fault",
            "exit code 1, not 0",
            id="exit code",
        ),
        pytest.param(
            ran("a\n", None), ran("a\n"), None, "fault", "did not end within", id="hang"
        ),
        pytest.param(
            ran("a\n", None),
            ran("a\n"),
            LISTED,
            "fault",
            "did not end within",
            id="a listed hang",
        ),
        pytest.param(
            ran("a\n"),
            ran("a\n", None),
            None,
            "fault",
            "the reference did not end",
            id="reference hangs",
        ),
        pytest.param(
            ran("a\n", 1),
            ran("a\n", 1),
            None,
            "fault",
            "the reference ended with 1",
            id="both fail",
        ),
        pytest.param(
            ran(""),
            ran(""),
            None,
            "fault",
            "the reference printed nothing",
            id="both silent",
        ),
        pytest.param(
            ran("", 1, "NotImplementedError"),
            ran("a\n"),
            LISTED,
            "listed",
            "no windows",
            id="listed",
        ),
        pytest.param(
            ran("", 1, "KeyError"),
            ran("a\n"),
            LISTED,
            "fault",
            "does not say",
            id="another reason",
        ),
        pytest.param(
            ran("a\n"),
            ran("a\n"),
            LISTED,
            "fault",
            "no difference any more",
            id="agrees, though listed",
        ),
    ],
)
def test_verdicts(
    ours: Ran, own: Ran, reason: Reason | None, verdict: str, why: str
) -> None:
    judged = judge(program(), LAYOUT.name, ours, own, reason)
    assert (judged.verdict, why in judged.why) == (verdict, True), judged.why


def test_expected_exit_code_and_silence() -> None:
    quiet = program(code=3, quiet=True)
    assert judge(quiet, "", ran("", 3), ran("", 3), None).verdict == "same"
    assert judge(quiet, "", ran("", 1), ran("", 3), None).verdict == "fault"


def test_masks_drops_and_lines() -> None:
    masked = program(masks=(r"\d+\.\d+ s\b",), drop=("^WARN",))
    assert seen(masked, ran("took 1.5 s\nWARN x\n\nb  \n")) == ["b", "took *"]
    assert seen(
        program(lines=("^OK",), errors=True), ran("OK 1\nother\n", err="OK 2\n")
    ) == ["OK 1", "OK 2"]
    assert seen(program(), ran("a\n", err="b\n")) == ["a"]
    assert (
        judge(masked, "", ran("took 2.5 s\n"), ran("took 9.1 s\n"), None).verdict
        == "same"
    )
    assert (
        judge(masked, "", ran("took 2.5 m\n"), ran("took 9.1 s\n"), None).verdict
        == "fault"
    )


def test_what_is_not_installed() -> None:
    absent = Reason(("group.one",), "too large", absent=True)
    assert not_installed(program(), ["x"], absent).verdict == "not installed"
    assert not_installed(program(), ["x"], None).verdict == "fault"
    assert not_installed(program(), ["x"], LISTED).verdict == "fault"
    assert (
        "is installed now" in judge(program(), "", ran("a\n"), ran("a\n"), absent).why
    )


def test_counts() -> None:
    judged = [
        Judged(program(name=name), "", verdict)
        for name, verdict in (("a.1", "same"), ("a.2", "same"))
    ]
    found = counts([*judged, Judged(program(name="b.1"), "", "fault")])
    assert found == {"a": {"same": 2}, "b": {"fault": 1}}
    assert counts([], ["a.x", "a.y"]) == {"a": {"not run": 2}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[reason]]\nprograms = ["a"]\nreason = " "\nsays = "x"\n', "have no reason"),
        ('[[reason]]\nprograms = ["a"]\nreason = "x"\n', "need a mark"),
        (
            '[[reason]]\nprograms = ["a", "a"]\nreason = "x"\nsays = "x"\n',
            "listed twice",
        ),
    ],
)
def test_reasons_are_complete(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "reasons.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_reasons(path)


@pytest.mark.parametrize(
    ("names", "reason", "message"),
    [("a", " ", "no reason"), ("a, a", "x", "listed twice")],
)
def test_programs_that_are_not_run_have_reasons(
    names: str, reason: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "reasons.toml"
    path.write_text(
        f"[[not_run]]\nprograms = {names.split(', ')}\nreason = '{reason}'\n"
    )
    with pytest.raises(ValueError, match=message):
        read_not_run(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('mask = ["x"]', "there is no key mask"),
        ('masks = ["x"]', "there is no mask x"),
        ("", "two programs"),
    ],
)
def test_a_bad_catalogue(line: str, message: str, tmp_path: Path) -> None:
    entry = f'[[program]]\nname = "a.b"\nargv = []\n{line}\n'
    path = tmp_path / "catalogue.toml"
    path.write_text("[masks]\n" + 2 * entry)
    with pytest.raises(ValueError, match=message):
        read_catalogue(path)


def test_the_catalogue() -> None:
    programs = read_catalogue()
    assert len(programs) > 100
    assert unknown(read_reasons(), programs) == []
    assert unknown(["demo.none"], programs) == ["demo.none"]
    assert not set(read_not_run()) & {one.name for one in programs}
    pinned = {
        line.partition("==")[0].lower()
        for line in REQUIREMENTS.read_text().splitlines()
    }
    pinned = {name.replace("_", "-") for name in pinned}
    assert {need.lower() for one in programs for need in one.needs} <= pinned
    assert not any(one.needs for one in programs if one.smoke)
    [one] = chosen(programs, ["demo.helloworld"])
    assert one.group == "demo"
    assert {found.group for found in chosen(programs, ["tools"])} == {"tools"}
    assert chosen(programs, [], smoke=True) == [
        found for found in programs if found.smoke
    ]
    with pytest.raises(ValueError, match="there is no program nothing"):
        chosen(programs, ["nothing"])


def test_a_program_is_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("programs_build.BUILT", tmp_path / "built")
    source = tmp_path / "source"
    source.mkdir()
    (source / "given.txt").write_text("1")
    python = Path(sys.executable)
    adds = "open('made{suffix}','a').write(open('given.txt').read())"
    one = program(source=str(source), build=(f"{{python}} -c {adds}",))
    made = (
        tmp_path / "built" / one.name / f"made{sysconfig.get_config_var('EXT_SUFFIX')}"
    )
    assert [build(one, python), build(one, python)] == ["", ""]
    assert made.read_text() == "1"
    assert "cannot be built: nosuch: No such file" in build(
        program(source=str(source), build=("nosuch",)), python
    )
    failing = program(
        source=str(source), build=("{python} -c raise(SystemExit('why'))",)
    )
    assert build(failing, python) == "cannot be built: why"
    assert build(program(), python) == ""


@pytest.mark.vendor("mpich")
def test_a_program_with_handles(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        "from mpi4py import MPI\nprint(MPI.COMM_WORLD.size, hex(MPI.COMM_WORLD.handle))\n"
    )
    one = program(argv=(str(path),), handles="mpich")
    ours = run(one, Path(sys.executable), LAYOUT)
    assert seen(one, ours) == 2 * ["2 0x44000000"], ours


@pytest.mark.vendor("mpich")
def test_a_program_for_real(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        "import sys\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
        "line = sys.stdin.readline().strip() if world.rank == 0 else None\n"
        "print(world.rank, world.allreduce(1), world.bcast(line))\nsys.exit(world.rank == 0 and 3)\n"
    )
    one = program(argv=(str(path),), stdin="hello\n", code=3)
    own, ours = (
        run(one, Path(sys.executable), layout)
        for layout in (Layout("own:mpich:2"), LAYOUT)
    )
    assert seen(one, own) == ["0 2 hello", "1 2 hello"]
    assert judge(one, LAYOUT.name, ours, own, None).verdict == "same", ours


def test_a_program_that_hangs_is_ended() -> None:
    one = program(
        argv=(
            "-c",
            "from mpi4py import MPI; MPI.COMM_WORLD.recv() if MPI.COMM_WORLD.rank else 0",
        ),
        limit_s=2.0,
    )
    assert run(one, Path(sys.executable), Layout("pure:1,pure:1")).code is None


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for has, too."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


STUBBORN = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.getpid() != os.getpgrp():
    os.setsid()
pathlib.Path(sys.argv[1], str(os.getpid())).touch()
time.sleep(600)
"""
"""A rank that no SIGTERM ends, in a session of its own."""


@pytest.mark.parametrize(
    "starter",
    [
        "python",
        *(
            pytest.param(one, marks=pytest.mark.vendor(one))
            for one in ("mpich", "openmpi")
        ),
    ],
)
def test_no_process_of_a_hanging_reference_is_left(
    starter: str, tmp_path: Path
) -> None:
    if starter == "python":
        start = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {STUBBORN!r}, {str(tmp_path)!r}])"
        one = program(argv=("-c", start), starts=True, limit_s=2.0)
    else:
        one = program(argv=("-c", STUBBORN, str(tmp_path)), limit_s=4.0)
    layout = Layout("own:mpich:2" if starter == "python" else f"own:{starter}:2")
    assert run_once(one, Path(sys.executable), layout).code is None
    pids = [int(path.name) for path in tmp_path.iterdir()]
    try:
        assert len(pids) == (1 if starter == "python" else 2)
        assert all(gone(pid) for pid in pids)
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_the_end_of_a_run_ends_its_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("programs_run._ENDING", Event())
    started = tmp_path / "started"
    os.mkfifo(started)
    waits = f"import time\nopen({str(started)!r}, 'w').close()\ntime.sleep(600)"
    one = program(argv=("-c", waits), starts=True, limit_s=60.0)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, one, Path(sys.executable), Layout("own:mpich:2"))
        started.open().close()
        end_all()
        assert running.result().code == -signal.SIGTERM
    with pytest.raises(RuntimeError, match="at its end"):
        run(one, Path(sys.executable), Layout("own:mpich:2"))


def test_a_reference_that_hangs_once_runs_again(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    once = f"import os, time; os.path.exists({str(mark)!r}) or (open({str(mark)!r}, 'w'), time.sleep(600)); print('a')"
    ran = run(
        program(argv=("-c", once), starts=True, limit_s=2.0),
        Path(sys.executable),
        Layout("own:mpich:1"),
    )
    assert (ran.code, ran.out) == (0, "a\n")


def test_a_reference_that_hangs_now_and_then_is_tried_again() -> None:
    ends = [ran("", None), ran("", None), ran("fine")]
    assert reference(lambda: ends.pop(0)).out == "fine"
    hung = [ran("", None)] * REFERENCES
    assert reference(hung.pop).code is None and hung == []
