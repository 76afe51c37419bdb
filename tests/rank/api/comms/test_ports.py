"""Ports of a job of one proc, and names where no server keeps any."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from impi.base.variables import PARENT
from impi.protocol.semantics.errors import MPIException
from impi.rank.api import runtime
from impi.rank.api.comms import ports
from impi.rank.api.constants import ERR_SERVICE
from impi.rank.api.handles.info import Info

KEY = b"\1" * 32


def test_a_port_is_closed_once(alone: Callable[..., list[str]]) -> None:
    alone("""
first, second = MPI.Open_port(), MPI.Open_port()
assert first != second
MPI.Close_port(first)
assert "is not open at this process" in refused(MPI.ERR_PORT, MPI.Close_port, first)
refused(MPI.ERR_PORT, MPI.COMM_WORLD.Accept, first)
refused(MPI.ERR_ROOT, MPI.COMM_WORLD.Accept, second, MPI.INFO_NULL, 1)
MPI.Close_port(second)
""")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A proc's knowledge of servers of names."""
    known = SimpleNamespace(names=None)
    monkeypatch.setattr(runtime._state, "engine", SimpleNamespace(other_jobs=known))
    monkeypatch.setattr(runtime._state, "finalized", False)
    for name in ("IMPI_NAMESERVER", "IMPI_AUTH_SECRET", "IMPI_AUTH_KEY"):
        monkeypatch.delenv(name, raising=False)
    return known


def test_without_a_server_the_cure_is_said(own: SimpleNamespace) -> None:
    with pytest.raises(
        MPIException, match="set IMPI_NAMESERVER, or the info key impi_server"
    ) as caught:
        ports.Lookup_name("ocean")
    assert caught.value == ERR_SERVICE


def test_which_server_keeps_names(
    own: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.names = ("10.0.0.1:5000", KEY.hex())
    assert ports._server(Info()) == ("10.0.0.1:5000", KEY)
    monkeypatch.setenv("IMPI_NAMESERVER", "10.0.0.2:5000")
    assert ports._server(Info()) == ("10.0.0.2:5000", KEY)
    there = Info.Create({"impi_server": "10.0.0.3:5000"})
    assert ports._server(there) == ("10.0.0.3:5000", KEY)
    # That of another job, which has another key
    monkeypatch.setenv("IMPI_AUTH_SECRET", "x" * 32)
    where, key = ports._server(there)
    assert where == "10.0.0.3:5000"
    assert key != KEY


def test_a_job_that_was_not_spawned_has_no_parents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(PARENT, raising=False)
    assert ports.parents(None) is None  # type: ignore[arg-type]
