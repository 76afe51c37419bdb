"""A proc's side of PMI: against our own manager, and under Hydra's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import PeerError
from impi.launch.pmi.client import Client
from impi.launch.pmi.lines import QueryReader
from impi.launch.pmi.manager import Manager

ROOT = Path(__file__).parents[3]
HYDRA = ROOT / ".mpi" / "mpich" / "bin" / "mpiexec.hydra"
PROC = Path(__file__).parent / "proc_of_pmi.py"


def test_a_client_and_our_manager_understand_each_other() -> None:
    manager = Manager("k", [1])
    client = Client(1, 0)

    def ask(octets: bytes) -> dict[str, str]:
        [query] = QueryReader().feed(octets)
        [(_, line)] = manager.hear(0, query)
        assert client.read(line[:3]) is None
        answer = client.read(line[3:])
        assert answer is not None
        return dict(answer.fields)

    ask(client.begin())
    assert ask(client.enter())["keylen_max"] == "64"
    job = ask(client.named())["kvsname"]
    ask(client.put(job, "a", "b"))
    ask(client.fence())
    assert ask(client.get(job, "a"))["value"] == "b"
    with pytest.raises(PeerError, match="refused: get_result says key_not_found"):
        ask(client.get(job, "c"))
    ask(client.leave())


@pytest.mark.parametrize("version", [1, 2])
@given(pieces=st.lists(st.binary(max_size=40)))
def test_any_octets_give_an_answer_or_a_sentence(
    version: int, pieces: list[bytes]
) -> None:
    client = Client(version, 0)
    client.begin()
    client.read(b"cmd=response_to_init rc=0\n")
    client.fence()
    try:
        for piece in pieces:
            assert client.read(piece) is None
    except PeerError:
        pass


def test_slurm_is_told_the_job() -> None:
    client = Client(2, 3, "7.0")
    client.begin()
    client.read(b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n")
    assert client.enter()[6:] == b"cmd=fullinit;pmijobid=7.0;pmirank=3;threaded=FALSE;"


def test_another_answer_gets_a_sentence() -> None:
    client = Client(1, 0)
    client.begin()
    with pytest.raises(
        PeerError, match="answered 'put_result' in place of 'response_to_init'"
    ):
        client.read(b"cmd=put_result rc=0\n")


@pytest.mark.parametrize("version", ["1", "2"])
def test_under_hydra(version: str) -> None:
    if not HYDRA.is_file():
        pytest.skip("MPICH is not installed: ci/vendors.sh")
    done = subprocess.run(
        [str(HYDRA), "-n", "3", sys.executable, str(PROC), version],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.split()) == ["0:of-1", "1:of-2", "2:of-0"]
