"""The recipe of a cell: what each command is, and what its ranks read."""

from __future__ import annotations

import json

import pytest
from forge import FakeBackend

from impi.lab.cases.own import OwnProgram
from impi.lab.cases.own_program import case_of
from impi.lab.nodes import parse_topology
from impi.lab.plan.cell import Cell, parse_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.recipe import Mutation, Recipe


def recipe(text: str, mutation: Mutation | None = None) -> Recipe:
    cell = parse_cell(text)
    lab = FakeBackend().open(cell.vendors, cell.topology, run="r")
    made = Recipe(prepare(lab, "r"), cell, mutation)
    made.hostport = "10.9.0.250:4000"
    return made


def test_each_attempt_has_secrets_and_a_folder_of_its_own() -> None:
    one, other = (recipe("p2p.ring/mpich+pure/1x2+1x2") for _ in range(2))
    assert one.nonce != other.nonce
    assert one.key != other.key
    assert set(one.folders.values()) & set(other.folders.values()) == set()


def test_a_client_runs_the_program_of_the_case_under_our_wrapper() -> None:
    argv, env = recipe("p2p.ring/mpich+pure/1x2+1x2").client(1)
    assert argv[argv.index("-client") + 1 :][:2] == ["1", "10.9.0.250:4000"]
    assert [word.rpartition("/")[2] for word in (argv[-4], argv[-1])] == [
        "rankwrap.py",
        "p2p_ring.py",
    ]
    assert env["IMPI_AUTH_NONE"] == "1"


def test_all_have_the_key_of_the_cell() -> None:
    made = recipe("startup.key/mpich+pure/1x2+1x2/auth=key")
    orders = [made.server(), made.client(0), made.client(1)]
    assert [env["IMPI_AUTH_KEY"] for _, env in orders] == [str(made.key)] * 3


def test_where_no_method_is_common_it_is_the_last_client_that_has_none() -> None:
    made = recipe("startup.no-common-auth/mpich+pure/1x2+1x2/auth=apart")
    assert (
        made.authentication(None)
        == made.authentication(0)
        == {"IMPI_AUTH_KEY": str(made.key)}
    )
    assert made.authentication(1) == {"IMPI_AUTH_NONE": "1"}


def test_a_relay_is_told_to_clients_once_it_is_known() -> None:
    made = recipe("p2p.ring/mpich+pure/1x2+1x2/reach=relay")
    assert "IMPI_RELAY" not in made.client(0)[1]
    made.relay_hostport = "10.9.0.1:5000"
    assert made.client(0)[1]["IMPI_RELAY"] == "10.9.0.1:5000"
    assert "-relay" in made.relay()[0]


def test_a_mutation_has_the_last_word() -> None:
    made = recipe(
        "p2p.ring/mpich+pure/1x2+1x2",
        lambda client, argv, env: ([str(client)], {"only": "this"}),
    )
    assert made.client(1) == (["1"], {"only": "this"})


def test_ranks_read_the_plan_and_where_the_others_are() -> None:
    made = recipe("p2p.ring/mpich+pure/2x1+1x2")
    made.write_plans()
    nodes = {node.name: node for nodes in made._lab.clients for node in nodes}
    plans = {
        name: json.loads(node.read(f"{made.folders[name]}/cell.json") or b"")
        for name, node in nodes.items()
    }
    assert [(plan["client"], plan["vendor"]) for plan in plans.values()] == [
        (0, "mpich"),
        (0, "mpich"),
        (1, "pure"),
    ]
    assert plans["c0n1"]["others"] == ["10.9.2.1"]
    assert plans["c1n0"]["others"] == ["10.9.1.1", "10.9.1.2"]
    assert plans["c1n0"]["clients"] == [[0, 1], [2, 3]]
    assert plans["c1n0"]["nonce"] == made.nonce


@pytest.mark.parametrize(
    ("cell", "launcher"),
    [
        ("p2p.ring/mpich+pure/1x2+1x2", ""),
        ("p2p.ring/mpich+pure/1x2+1x2/launcher=mpiexec", "mpiexec"),
        ("startup.key/mpich+pure/1x2+1x2/auth=key", ""),
        # about processes: the library's own launcher, unless the cell says otherwise
        ("startup.hello/mpich+pure/1x2+1x2", "mpiexec"),
        ("startup.hello/mpich+pure/1x2+1x2/launcher=auto", "auto"),
        ("failure.kill-rank/mpich+pure/1x2+1x2", "mpiexec"),
        # compiled programs, which are forks of nothing
        ("p2p.ring/mpich+pure/1x2+1x2/abi=mpich", "mpiexec"),
    ],
)
def test_impirun_chooses_the_launcher_where_processes_are_not_the_matter(
    cell: str, launcher: str
) -> None:
    made = recipe(cell)
    argv, _ = made.client(0)
    assert argv.count("--launcher") == bool(launcher)
    assert not launcher or argv[argv.index("--launcher") + 1] == launcher
    assert "launcher=" in cell or "--launcher" not in made.client(1)[0]


def test_one_command_is_server_and_clients() -> None:
    made = recipe("p2p.ring/mpich+pure/1x2+1x2/auth=key,start=one")
    argv, env = made.whole()
    assert argv[1:3] == ["-m", "impi.cli.impirun"]
    assert "-server" not in argv and "-client" not in argv and made.hostport not in argv
    first, second = " ".join(argv[3:]).split(" : ")
    assert first.startswith("-v -auth 1,0 -np 2 --vendor mpich") and second.startswith(
        "-np 2 --vendor pure"
    )
    assert "-auth 1,0" in second
    assert all(part.endswith("p2p_ring.py") for part in (first, second))
    assert env["IMPI_AUTH_KEY"] == str(made.key)
    assert env.keys() >= made.client(0)[1].keys() | made.client(1)[1].keys()


def test_a_compiled_program_of_the_users_is_the_program() -> None:
    own = OwnProgram(name="a.out", octets=b"\x7fELF...", arguments=("-n", "3"))
    cell = Cell(case_of(own), ("mpich", "pure"), parse_topology("1x2+1x2"))
    lab = FakeBackend().open(cell.vendors, cell.topology, run="r")
    made = Recipe(prepare(lab, "r"), cell, None)
    node = lab.clients[0][0]
    folder = made.folders[node.name]
    argv, env = made.client(0)
    assert argv[-4:] == [folder, f"{folder}/program/a.out", "-n", "3"]
    assert env["IMPI_CACHE"].endswith("/.cache/impi")
    made.write_plans()
    assert node.read(f"{folder}/program/a.out") == own.octets
    assert "text" not in json.loads(node.read(f"{folder}/cell.json") or b"")["params"]
    assert made.witness(node, 9.0)[0][-1] == "--outside"
    assert cell.compiled
