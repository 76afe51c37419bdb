"""Lying clients on real nodes: each is caught by its own evidence, beside a passing twin.

On ``local`` there are no captures; what only they can see is tried with ``docker``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attempts import attempt
from lies import SENDS_NOTHING, patched

from impi.base.errors import LabError
from impi.lab.backends import choose_backend
from impi.lab.cases import CASES
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.interface import Backend
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits
from impi.lab.run.recipe import Mutation

LIMITS = Limits(server=20, start=60, cell=60, grace=2)
SHORT = Limits(server=20, start=60, cell=8, grace=2)


@pytest.fixture(
    scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)]
)
def backend(request) -> Backend:
    try:
        found = choose_backend(request.param)
        sick = [f for f in found.doctor() if f.fatal and not f.ok]
    except LabError as error:
        pytest.skip(
            f"the backend {request.param} needs an engine that answers: {error}"
        )
    if sick:
        pytest.skip(
            f"the backend {request.param} lacks {sick[0].subject}: {sick[0].detail}"
        )
    found.prepare(["pure"])
    return found


@pytest.fixture(scope="module")
def docker() -> Backend:
    try:
        found = choose_backend("docker")
        sick = [f for f in found.doctor() if f.fatal and not f.ok]
    except LabError as error:
        pytest.skip(f"captures need a container engine that answers: {error}")
    if sick:
        pytest.skip(f"the engine lacks {sick[0].subject}: {sick[0].detail}")
    found.prepare(["pure"])
    return found


def run(
    backend: Backend,
    mutation: Mutation | None = None,
    *,
    case: str = "p2p.ring",
    vendors: tuple[str, ...] = ("pure", "pure"),
    topology: str = "1x2+1x2",
    limits: Limits = LIMITS,
) -> Verdict:
    cell = Cell(CASES[case], vendors, parse_topology(topology))
    return attempt(backend, cell, limits, mutation, "mutants")[1]


def only(
    client: int,
    change: Callable[[list[str], dict[str, str]], tuple[list[str], dict[str, str]]],
) -> Mutation:
    """The change in one client's command."""
    return lambda i, argv, env: change(argv, env) if i == client else (argv, env)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["p2p.ring", "shutdown.exit-code"])
def test_the_twin_passes(backend, case):
    verdict = run(backend, case=case)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert verdict.self_reported == (backend.name == "local")


@pytest.mark.slow
def test_rank_0_of_1(backend):
    ours = patched(
        (
            "from begun",
            "import sys\nimport impi\nsys.modules['mpi4py'] = impi\nfrom begun",
        )
    )

    def alone(argv: list[str], env: dict[str, str]) -> tuple[list[str], dict[str, str]]:
        argv, env = ours(1, argv, env)
        wrapper = next(i for i, a in enumerate(argv) if a.endswith("rankwrap.py"))
        # The program itself, where impirun should start it
        return argv[wrapper - 1 :], env

    verdict = run(backend, only(1, alone), topology="1x2+1x1")
    assert (verdict.outcome, verdict.phase) == ("fail", "init")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "identity.world"
    assert "client 1" in verdict.blame
    assert "rank 0 of 1" in verdict.culprit.actual


def with_vendor(name: str) -> Mutation:
    def change(
        argv: list[str], env: dict[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        at = argv.index("--vendor") + 1
        return [*argv[:at], name, *argv[at + 1 :]], {
            k: v for k, v in env.items() if not k.startswith("IMPI_PREFIX")
        }

    return only(1, change)


@pytest.mark.slow
@pytest.mark.vendor("mpich")
def test_another_vendor_than_planned(backend):
    backend.prepare(["pure", "mpich"])
    verdict = run(backend, with_vendor("pure"), vendors=("pure", "mpich"))
    assert (verdict.outcome, verdict.phase) == ("fail", "init")
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.culprit.actual) == (
        "identity.library",
        "no libmpi is mapped",
    )


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
def test_another_library_than_planned():
    backend = choose_backend("local")
    backend.prepare(["mpich", "openmpi"])
    assert run(backend, vendors=("pure", "mpich")).outcome == "pass"
    verdict = run(backend, with_vendor("openmpi"), vendors=("pure", "mpich"))
    assert (verdict.outcome, verdict.phase) == ("fail", "init")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "identity.library"
    assert "openmpi" in verdict.culprit.actual


@pytest.mark.slow
def test_another_source_than_planned(backend):
    """A client that runs an impi other than the one under test, be it only by a comment."""
    script = (
        'mkdir "$HOME/other" && cp -r "$PYTHONPATH/impi" "$HOME/other" && '
        'echo "# other" >> "$HOME/other/impi/protocol/job.py" && export PYTHONPATH="$HOME/other" && exec "$@"'
    )
    verdict = run(
        backend,
        only(1, lambda argv, env: (["/bin/sh", "-c", script, "sh", *argv], env)),
    )
    assert (verdict.outcome, verdict.phase) == ("fail", "init")
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.culprit.actual) == (
        "identity.source",
        "other text: impi.protocol.job",
    )
    assert "client 1" in verdict.blame
    assert [i.name for i in verdict.items if not i.ok] == ["identity.source"]


@pytest.mark.slow
def test_wrong_data(backend):
    verdict = run(
        backend,
        patched(
            ("doubles, right, 8", "array('d', [x + 1 for x in doubles]), right, 8")
        ),
    )
    assert (verdict.outcome, verdict.phase) == ("fail", "case")
    assert verdict.culprit is not None
    # The wire knows the sender of wrong octets; without captures there is the receiver's check.
    captured = backend.name != "local"
    assert verdict.culprit.name == ("traffic.payload" if captured else "end.checks")
    (checks,) = {
        i.expected
        for i in verdict.items
        if i.name == "end.checks" and "doubles from the left" in i.expected
    }
    assert not captured or "rank 2" in verdict.blame or "rank 3" in verdict.blame, (
        checks
    )


@pytest.mark.slow
def test_an_early_exit(backend):
    verdict = run(
        backend,
        patched(
            ("octets = report", "import os\nif rank == 2: os._exit(0)\noctets = report")
        ),
    )
    assert (verdict.outcome, verdict.phase) == ("fail", "case")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "end.checks"
    assert "rank 2" in verdict.blame
    assert "it ended with 0 before its last check" in verdict.culprit.actual


@pytest.mark.slow
def test_always_exit_0(backend):
    def swallow(
        argv: list[str], env: dict[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        return ["/bin/sh", "-c", '"$@"; exit 0', "sh", *argv], env

    verdict = run(backend, only(1, swallow), case="shutdown.exit-code")
    assert (verdict.outcome, verdict.phase) == ("fail", "fini")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "end.status"
    assert "impirun of client 1" in verdict.culprit.expected


@pytest.mark.slow
def test_a_rank_that_fails_after_its_checks(backend):
    end = "report.done()\nMPI.Finalize()\nimport sys; sys.exit(5 if rank == 2 else 0)"
    verdict = run(backend, patched(("report.done()", end)))
    assert (verdict.outcome, verdict.phase) == ("fail", "finalize")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "end.status"
    assert (verdict.culprit.expected, verdict.culprit.actual) == (
        "rank 2 ends with 0",
        "it ended with 5",
    )


@pytest.mark.slow
def test_a_hang(backend):
    hang = "import time\nif rank == 3: time.sleep(1000)\noctets = report"
    verdict = run(backend, patched(("octets = report", hang)), limits=SHORT)
    assert (verdict.outcome, verdict.phase) == ("timeout", "case")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "end.checks"
    assert "rank 3" in verdict.blame
    assert "it stands in File" in verdict.culprit.actual


@pytest.mark.slow
def test_a_process_that_stays(backend):
    daemon = (
        "import subprocess\n"
        "if rank == 2: subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "octets = report"
    )
    verdict = run(backend, patched(("octets = report", daemon)))
    assert (verdict.outcome, verdict.phase) == ("fail", "down")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "end.leftovers"
    assert "sleep 300" in verdict.culprit.actual


# -- what only captures can see: all ranks agree that everything is fine


@pytest.mark.slow
@pytest.mark.docker
def test_sends_nothing(docker):
    verdict = run(docker, SENDS_NOTHING)
    assert (verdict.outcome, verdict.phase) == ("fail", "case")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "traffic.crossing"
    assert [i.name for i in verdict.items if not i.ok] == ["traffic.crossing"]


@pytest.mark.slow
@pytest.mark.docker
def test_wrong_byte_order(docker):
    swapped = (
        ("received = ", "doubles.byteswap()\nreceived = "),
        (
            'report.check("doubles from',
            'received.byteswap()\nreport.check("doubles from',
        ),
    )
    verdict = run(docker, patched(*swapped, clients=(0, 1)))
    assert (verdict.outcome, verdict.phase) == ("fail", "case")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "traffic.payload"
    assert [i.name for i in verdict.items if not i.ok] == ["traffic.payload"]
