"""The end of a relay inside impirun: what it asks for, what it leads to hosts, and its loss."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from relay_world import HERE, KEY, MIB, SECRET, StartRelay, behind, everything

from impi.base.errors import JobError, StartupError, UsageError
from impi.launch.relay.far_end import MOST_ENDPOINTS
from impi.launch.relay.near_end import NearEnd
from impi.protocol.job import Host, Job, Proc
from impi.protocol.startup.challenge import Trust


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_the_last_octets_of_a_host_arrive_although_its_impirun_ends(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    host = behind(stack, start_relay(environ=SECRET).where)
    visitor = stack.enter_context(host.visit())
    inside = host.accept()
    inside.sendall(bytes(MIB))
    inside.close()
    host.near.close()
    assert len(everything(visitor)) == MIB


def test_what_cannot_be_had_gets_a_sentence(start_relay: StartRelay) -> None:
    where = start_relay("--ports", "20970-20972", environ=SECRET).where
    assert 20970 <= int(where.rpartition(":")[2]) <= 20972
    with pytest.raises(
        StartupError,
        match=rf"the relay at {where}: it cannot open 3 endpoints: .*--ports",
    ):
        NearEnd(where, KEY, 3, 0.0)
    with pytest.raises(
        StartupError, match=f"the {MOST_ENDPOINTS} of a relay: start another relay"
    ):
        NearEnd(where, KEY, MOST_ENDPOINTS + 1, 0.0)
    NearEnd(where, KEY, 2, 0.0).close()


def test_where_no_relay_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        where = "{}:{}".format(*gone.getsockname())
    with pytest.raises(
        StartupError,
        match=rf"no relay answers at {where} \(Connection refused\): start 'impirun -relay'",
    ):
        NearEnd(where, KEY, 1, 0.0)
    with pytest.raises(
        UsageError, match="--relay takes HOST:PORT of a relay, not 'here'"
    ):
        NearEnd("here", KEY, 1, 0.0)


def test_hosts_that_prove_nothing_cannot_be_with_those_behind_a_relay(
    start_relay: StartRelay, stack: ExitStack
) -> None:
    host = behind(stack, start_relay(environ=SECRET).where)
    hosts = tuple(
        Host(index=i, client=i, ipv6=HERE, port=1, procs=(i,)) for i in range(3)
    )
    procs = tuple(Proc(rank=i, client=i, host=i, ipv6=HERE, pid=i) for i in range(3))
    job = Job(
        version=(0, 0),
        nclients=3,
        hosts=hosts,
        procs=procs,
        maxdatalen=1,
        tag_ub=1,
        xsize=1,
        maxlinear=1,
        ackmark=1,
        hiwater=1,
    )
    host.near.check(job, Trust(b"", (0, 1, 2)))
    with pytest.raises(
        StartupError, match="are known by a secret alone, and client 2 cannot prove one"
    ):
        host.near.check(job, Trust(b"", (0, 1)))
    with pytest.raises(StartupError, match="none here proves one"):
        host.near.check(job, Trust())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signum", "why"), [(signal.SIGKILL, "has ended"), (signal.SIGSTOP, "of for 5 s")]
)
def test_a_relay_that_is_lost_is_named(
    signum: int, why: str, start_relay: StartRelay, stack: ExitStack
) -> None:
    relay = start_relay(environ=SECRET)
    host = behind(stack, relay.where, silence_s=5.0)
    host.near.raise_lost("so far")
    relay.process.send_signal(signum)
    assert select.select([host.near], [], [], 15.0)[0]
    with pytest.raises(
        JobError, match=rf"the relay at {relay.where} .*{why}.*, at last"
    ):
        host.near.raise_lost("at last")
