"""The C programs of the cases make the checks that the cases declare, under MPICH alone."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from impi.lab.cases import CASES, Case
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology
from impi.lab.programs.payload import numbers, octets

ROOT = Path(__file__).parents[3]
NONCE = "5eed" * 8
ROSTER = Roster.of(parse_topology("1x2+1x2"), ["pure", "pure"])
TWINS = [case for case in CASES.values() if case.twin]
MPICH = ROOT / ".mpi/mpich/bin"
_BEYOND_MPICH = ("startup.hello", "shutdown.finalize")
"""Its mpi.h lacks attributes of IMPI; its MPI_Finalize aborts over an unreceived message."""


def _build(source: Path, program: Path) -> None:
    if not (MPICH / "mpicc").exists():
        pytest.skip("mpich is not in .mpi/mpich: run ci/vendors.sh")
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: install gcc")
    argv = [
        str(MPICH / "mpicc"),
        "-std=gnu89",
        "-Wall",
        "-Werror",
        "-Wno-unused-function",
        "-Wno-deprecated",
    ]
    subprocess.run(
        [*argv, "-Wno-deprecated-declarations", "-o", str(program), str(source)],
        check=True,
    )


def _run(
    case: Case, folder: Path, source: Path | None = None
) -> list[dict[str, object]]:
    """Run the twin on four ranks under mpiexec, its gate open; return the ranks' last reports."""
    _build(source or case.twin_source, folder / "program")
    cell = folder / "cell"
    cell.mkdir()
    clients = [ROSTER.of_client(client) for client in range(ROSTER.nclients)]
    order = [[planned.rank, planned.client] for planned in ROSTER.ranks]
    plan = {
        "cell": "x",
        "nonce": NONCE,
        "clients": clients,
        "order": order,
        "params": dict(case.params),
    }
    (cell / "cell.json").write_text(json.dumps(plan))
    (folder / "node.json").write_text(json.dumps({"nonce": "node"}))
    (cell / "gate").touch()
    argv = [
        str(MPICH / "mpiexec"),
        "-n",
        "4",
        "-genv",
        "IMPILAB_CELL",
        str(cell),
        str(folder / "program"),
    ]
    subprocess.run(
        argv, stdin=subprocess.DEVNULL, timeout=60, check=case.ends(ROSTER).well
    )
    for path in cell.glob("init-*.json"):
        first = json.loads(path.read_text())
        assert (
            first["nonce"] == NONCE
            and first["node_nonce"] == "node"
            and "MPICH" in first["library"]
        )
    return sorted(
        (json.loads(p.read_text()) for p in cell.glob("done-*.json")),
        key=lambda report: report["rank"],
    )


def _check(case: Case, folder: Path) -> None:
    reports = _run(case, folder)
    assert [report["failures"] for report in reports] == [[]] * 4
    assert [report["performed"] for report in reports] == [
        case.checks_of(ROSTER, rank) for rank in range(4)
    ]


def test_the_octets_of_c_are_those_of_python(tmp_path):
    source = tmp_path / "words.c"
    source.write_text(
        f'#include "{CASES["p2p.ring"].twin_source.parent}/report.h"\n'
        'int main(void) { unsigned char data[1000]; int n[7], i; strcpy(the.nonce, "'
        + NONCE
        + '");\n'
        'octets(data, 1000, "ring/%d", 3); for (i = 0; i < 1000; i++) printf("%02x", data[i]);\n'
        'numbers(n, 7, "sums/%d/%s", 12, "x"); for (i = 0; i < 7; i++) printf(" %d", n[i]);\n'
        "return 0; }\n"
    )
    _build(source, tmp_path / "words")
    printed = subprocess.run(
        [tmp_path / "words"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert printed == [
        octets(NONCE, "ring/3", 1000).hex(),
        *map(str, numbers(NONCE, "sums/12/x", 7)),
    ]


def test_a_twin_makes_the_checks_of_its_case(tmp_path):
    _check(CASES["p2p.ring"], tmp_path)


def test_a_twin_tells_what_failed(tmp_path):
    """A program that expects other octets than the planned ones."""
    source = CASES["p2p.ring"].twin_source
    wrong = tmp_path / "p2p_wrong.c"
    wrong.write_text(
        source.read_text().replace(
            'octets(wanted, 256, "ring', 'octets(wanted, 256, "verse'
        )
    )
    (tmp_path / "report.h").write_text((source.parent / "report.h").read_text())

    failures = [
        report["failures"] for report in _run(CASES["p2p.ring"], tmp_path, wrong)
    ]
    for rank, found in enumerate(failures):
        left = (rank - 1) % 4
        assert found == [
            {
                "check": "octets from the left",
                "expected": octets(NONCE, f"verse/{left}", 64).hex(),
                "actual": octets(NONCE, f"ring/{left}", 64).hex(),
            }
        ]


@pytest.mark.proof
@pytest.mark.parametrize(
    "case",
    [c for c in TWINS if c.name not in _BEYOND_MPICH],
    ids=lambda case: case.name,
)
def test_every_twin_makes_the_checks_of_its_case(case, tmp_path):
    _check(case, tmp_path)


def test_every_c_program_belongs_to_a_case():
    folder = CASES["p2p.ring"].twin_source.parent
    stray = {path.name for path in folder.glob("*.c")} - {
        case.twin_source.name for case in TWINS
    }
    assert not stray, "no case's twin: its name is that of the case's program, with .c"
