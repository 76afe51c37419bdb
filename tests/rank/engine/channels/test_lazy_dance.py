"""Channels at the first message, over sockets: whoever connects, and both at once (2.3.8)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hosts_world import job_of_hosts

from impi.base.errors import JobError
from impi.protocol.job import LAZY_VERSION, Host
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.dance import encode_rank
from impi.protocol.wire import addresses
from impi.rank.doors.introduce import introduce, receive_exactly
from impi.rank.engine.channels.lazy_dance import LazyDance
from impi.rank.engine.channels.mesh import listen

WAIT_S = 30.0
HERE = "127.0.0.1"
KEY = b"the key of this job, as all clients know it"


class Hosts:
    """A lazy job of hosts on 127.0.0.1, one a client."""

    def __init__(self, count: int, trust: Trust) -> None:
        listeners = [listen(HERE) for _ in range(count)]
        hosts = [
            Host(
                index=i,
                client=i,
                ipv6=addresses.from_text(HERE),
                port=sock.getsockname()[1],
                procs=(),
            )
            for i, sock in enumerate(listeners)
        ]
        self.job = job_of_hosts(hosts, LAZY_VERSION)
        self.channels: list[dict[int, socket.socket]] = [{} for _ in hosts]
        self.dances = [
            LazyDance(self.job, me, sock, HERE, trust, self.channels[me].__setitem__)
            for me, sock in enumerate(listeners)
        ]

    def close(self) -> None:
        for dance in self.dances:
            dance.close()
        for channels in self.channels:
            for sock in channels.values():
                sock.close()

    def has(self, me: int, other: int) -> bool:
        """Whether ``me`` has the channel, after a look at what has come."""
        self.dances[me].take_up()
        return other in self.channels[me]


@pytest.fixture(params=["none", "proved", "tls"])
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    clients = (0, 1, 2)
    trust = {
        "none": Trust(),
        "proved": Trust(KEY, clients),
        "tls": Trust(KEY, clients, clients),
    }[request.param]
    with ExitStack() as stack:
        found = Hosts(3, trust)
        stack.callback(found.close)
        yield found


def talk(hosts: Hosts, one: int, other: int) -> None:
    """Both ends are those of one channel."""
    for a, b in ((one, other), (other, one)):
        sock = hosts.channels[a][b]
        assert sock.send(bytes([a, b])) == 2
    for a, b in ((one, other), (other, one)):
        sock, room, got = hosts.channels[a][b], bytearray(2), 0
        while got < 2:
            try:
                got += sock.recv_into(memoryview(room)[got:])
            except BlockingIOError:
                continue
        assert bytes(room) == bytes([b, a])


@pytest.mark.clause("2.3.8")
@pytest.mark.parametrize(("caller", "called"), [(0, 1), (1, 0), (0, 2)])
def test_the_first_message_makes_the_channel_and_no_other(
    hosts: Hosts, caller: int, called: int
) -> None:
    hosts.dances[caller].reach(called)
    hosts.dances[caller].reach(called)
    hosts.dances[called].reach(caller)  # it has come, or comes
    talk(hosts, caller, called)
    assert sum(map(len, hosts.channels)) == 2


def test_two_that_connect_at_once_have_one_channel(hosts: Hosts) -> None:
    for _ in range(20):
        one = Hosts(2, Trust())
        ready = threading.Barrier(2)

        def call(me: int, one: Hosts = one, ready: threading.Barrier = ready) -> None:
            ready.wait(WAIT_S)
            one.dances[me].reach(1 - me)

        threads = [
            threading.Thread(target=call, args=(me,), daemon=True) for me in (0, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        talk(one, 0, 1)
        one.close()


def test_what_was_answered_is_there_at_the_end(hosts: Hosts) -> None:
    hosts.dances[1].reach(0)
    hosts.dances[0].close()
    assert 1 in hosts.channels[0]


def test_a_descriptor_wakes_who_waits(hosts: Hosts) -> None:
    import select

    poll = select.poll()
    poll.register(hosts.dances[0].fileno(), select.POLLIN)
    assert poll.poll(0) == []
    hosts.dances[2].reach(0)
    assert poll.poll(1000 * WAIT_S)
    assert hosts.has(0, 2)
    assert poll.poll(0) == []


def test_who_does_not_accept_any_more_cannot_be_reached(hosts: Hosts) -> None:
    hosts.dances[1].close()
    with pytest.raises(
        JobError, match=r"host 0 cannot connect to host 1 \(client 1\) at 127\.0\.0\.1:"
    ):
        hosts.dances[0].reach(1)


def test_a_connection_too_many_is_closed_without_an_answer(hosts: Hosts) -> None:
    hosts.dances[1].reach(0)
    where = (HERE, hosts.job.hosts[0].port)
    with (
        socket.create_connection(where, WAIT_S) as late,
        pytest.raises(ConnectionError),
    ):
        proofs = hosts.dances[1]._proofs
        assert introduce(late, encode_rank(1), proofs.secret(0), proofs.about(1, 0))
        receive_exactly(late, 4)


def test_what_answers_with_another_rank_is_another_host(hosts: Hosts) -> None:
    if hosts.dances[0]._proofs.secret(1):
        return  # with a secret an impostor fails before that, as in the dance
    with socket.create_server((HERE, 0)) as impostor:
        one = hosts.job.hosts[1]
        object.__setattr__(one, "port", impostor.getsockname()[1])

        def answer() -> None:
            with impostor.accept()[0] as sock:
                receive_exactly(sock, 4)
                sock.sendall(encode_rank(2))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(
            JobError,
            match="the process that host 0 has reached as host 1 is not that host",
        ):
            hosts.dances[0].reach(1)
        thread.join(WAIT_S)
