"""The environment of procs, and the part of it that goes to other nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.launch.start.nodes import parse
from impi.launch.start.program import Program, base_environment, exported, forwarded


def test_environment_of_procs() -> None:
    outer = {
        "PATH": "/bin",
        "IMPI_AUTH_KEY": "secret",
        "IMPI_AUTH_NONE": "",
        "IMPI_JOIN": "{}",
        "PMI_RANK": "3",
        "PMIX_RANK": "1",
        "OMPI_COMM_WORLD_RANK": "1",
        "PRTE_MCA_x": "kept",
        "IMPILAB_RUN": "kept",
        "PYTHONPATH": "/mine",
    }
    env = base_environment(outer)
    assert set(env) == {"PATH", "PRTE_MCA_x", "IMPILAB_RUN", "PYTHONPATH"}
    first, *rest = env["PYTHONPATH"].split(":")
    assert (Path(first) / "sitecustomize.py").is_file()
    assert rest == ["/mine"]
    assert base_environment(env) == env


def test_variables_of_the_user_go_to_all_nodes() -> None:
    found = exported(["MINE=1", "HOME"], {"HOME": "/h", "OTHER": "2"})
    assert found == {"MINE": "1", "HOME": "/h", "IMPI_EXPORT": "MINE,HOME"}
    assert exported([], {"HOME": "/h"}) == {}
    assert forwarded({**found, "OMP_NUM_THREADS": "3", "OTHER": "2"}) == [
        "HOME",
        "IMPI_EXPORT",
        "MINE",
        "OMP_NUM_THREADS",
    ]
    with pytest.raises(UsageError, match="-x NONE: there is no such variable here"):
        exported(["NONE"], {})
    with pytest.raises(
        UsageError, match="-x PMI_RANK: impirun and the MPI library set this"
    ):
        exported(["PMI_RANK=1"], {})


@pytest.mark.clause("2.2.4")
def test_the_invitation_of_a_kept_program_has_no_secret() -> None:
    """An mpiexec carries it to other nodes in clear."""
    program = Program(
        argv=("prog",),
        nodes=parse("far1:1,far2:1"),
        environ={},
        join={"vendor": "mpich", "token": "ab" * 16, "names": ["h:1", "cd" * 32]},
        kept="a name",
    )
    told = program.invitation(size=2)
    assert json.loads(told) == {"vendor": "mpich", "kept": "a name", "size": 2}
