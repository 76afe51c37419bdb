"""Connections between the procs of a client: who is let in, and who is not."""

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from impi.base.errors import StartupError
from impi.protocol.proofs import ANSWER_SIZE, NONCE_SIZE, PROOF_SIZE
from impi.rank.doors.introduce import receive_exactly
from impi.rank.vendors.meeting import AGENT, Door, encrypted_links, knock
from impi.rank.vendors.secure_socket import SecureSocket

DEADLINE_S = 60.0


def meet(
    door: Door,
    rank: int,
    peers: list[dict],
    token: str = "aa" * 16,
    timeout_s: float = DEADLINE_S,
):
    return door.meet(rank, peers, token, timeout_s)


@pytest.mark.parametrize("kind", ["unix", "tcp", "unix that is gone"])
def test_strangers_are_kept_out_and_keep_nobody_out(kind):
    with (
        Door("127.0.0.1", 4) as low,
        Door("127.0.0.1", 4) as high,
        ThreadPoolExecutor(1) as pool,
    ):
        peers = [dict(low.address), dict(high.address)]
        if kind == "tcp":
            peers[0]["node"] = "another node"
        elif kind != "unix":
            peers[0]["unix"] += "-gone"
        silent = socket.create_connection(low.address["tcp"])
        rude = socket.create_connection(low.address["tcp"])
        rude.sendall(b"GET / HTTP/1.1\r\nHost: somewhere else entirely\r\n\r\n")
        forger = socket.create_connection(low.address["tcp"])
        forger.sendall(b"IMPIPURE" + (1).to_bytes(4, "big") + bytes(32))
        waiting = pool.submit(meet, low, 0, peers)
        forger.settimeout(DEADLINE_S)
        assert len(receive_exactly(forger, ANSWER_SIZE)) == ANSWER_SIZE
        forger.sendall(bytes(PROOF_SIZE))
        for stranger in (rude, forger):
            stranger.settimeout(DEADLINE_S)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        links = meet(high, 1, peers)
        back = waiting.result(DEADLINE_S)
        assert links[0].family == (socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        links[0].sendall(b"x")
        back[1].settimeout(DEADLINE_S)
        assert back[1].recv(1) == b"x"
        for sock in (silent, rude, forger, links[0], back[1]):
            sock.close()


def test_who_does_not_know_the_token_is_not_trusted():
    with (
        Door("127.0.0.1", 4) as low,
        Door("127.0.0.1", 4) as high,
        ThreadPoolExecutor(1) as pool,
    ):
        peers = [low.address, high.address]
        waiting = pool.submit(meet, low, 0, peers, "bb" * 16, 1.0)
        with pytest.raises(
            StartupError,
            match=r"is not proc 0 of this client: it does not know the token",
        ):
            meet(high, 1, peers)
        with pytest.raises(StartupError, match=r"proc 0 waited in vain for proc 1"):
            waiting.result(DEADLINE_S)


def test_an_agent_is_met_by_just_its_procs(monkeypatch):
    monkeypatch.setattr("impi.rank.doors.introduce.AGAIN_S", 0.5)
    token = "aa" * 16
    with Door("127.0.0.1", 4) as door, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(door.admit, AGENT, [3, 5], token, DEADLINE_S)
        with pytest.raises(
            StartupError, match="the agent of this client did not answer proc 4"
        ):
            knock(4, AGENT, door.address, token, DEADLINE_S)
        near = knock(5, AGENT, door.address, token, DEADLINE_S)
        far = knock(
            3, AGENT, {**door.address, "node": "another node"}, token, DEADLINE_S
        )
        assert (near.family, far.family) == (socket.AF_UNIX, socket.AF_INET)
        links = waiting.result(DEADLINE_S)
        assert sorted(links) == [3, 5]
        for sock in (near, far, *links.values()):
            sock.close()
        with pytest.raises(StartupError, match="the agent waited in vain for proc 7"):
            door.admit(AGENT, [7], token, 0.1)


def test_an_impostor_behind_the_address_is_found_out():
    with (
        socket.create_server(("127.0.0.1", 0)) as impostor,
        Door("127.0.0.1", 4) as door,
        ThreadPoolExecutor(1) as pool,
    ):
        address = {"node": "x", "unix": None, "tcp": list(impostor.getsockname())}
        proc = pool.submit(meet, door, 1, [address, door.address])
        sock = impostor.accept()[0]
        sock.settimeout(DEADLINE_S)
        hello = receive_exactly(sock, 12 + NONCE_SIZE)
        # The octets that it heard prove nothing in the other direction.
        sock.sendall((hello[12:] * 2)[:ANSWER_SIZE])
        with pytest.raises(StartupError, match="does not know the token"):
            proc.result(DEADLINE_S)
        sock.close()


@pytest.mark.clause("2.2.4")
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_with_tls_what_leaves_the_node_is_encrypted(kind):
    doors = [Door("127.0.0.1", 4) for _ in range(3)]
    peers = [dict(door.address) for door in doors]
    if kind == "tcp":
        peers = [{**peer, "node": "another node"} for peer in peers]
    with ThreadPoolExecutor(3) as pool:
        found = [
            pool.submit(door.meet, rank, peers, "aa" * 16, DEADLINE_S, tls=True)
            for rank, door in enumerate(doors)
        ]
        links = [each.result(DEADLINE_S) for each in found]
    for rank, mine in enumerate(links):
        for other, link in mine.items():
            assert isinstance(link, SecureSocket) == (kind == "tcp")
            link.send(f"{rank} to {other}".encode())
    for rank, mine in enumerate(links):
        for other, link in mine.items():
            link.setblocking(True)
            room = bytearray(20)
            size = link.recv_into(memoryview(room))
            assert room[:size] == f"{other} to {rank}".encode()
            link.close()
    for door in doors:
        door.close()


@pytest.mark.clause("2.2.4")
def test_an_agent_and_a_proc_of_another_node_encrypt():
    token = "aa" * 16
    with Door("127.0.0.1", 4) as door, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(door.admit, AGENT, [3], token, DEADLINE_S)
        address = {**door.address, "node": "another node"}
        near = {AGENT: knock(3, AGENT, address, token, DEADLINE_S)}
        far = waiting.result(DEADLINE_S)
        agents = pool.submit(encrypted_links, AGENT, far, token)
        proc = encrypted_links(3, near, token)[AGENT]
        agent = agents.result(DEADLINE_S)[3]
        assert isinstance(proc, SecureSocket)
        assert isinstance(agent, SecureSocket)
        proc.send(b"x")
        agent.setblocking(True)
        room = bytearray(1)
        agent.recv_into(memoryview(room))
        assert room == b"x"
        proc.close()
        agent.close()


def test_who_has_no_tls_is_named():
    token = "aa" * 16
    with Door("127.0.0.1", 4) as door, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(door.admit, 0, [1], token, DEADLINE_S)
        address = {**door.address, "node": "another node"}
        near = knock(1, 0, address, token, DEADLINE_S)
        far = waiting.result(DEADLINE_S)[1]
        far.setblocking(True)
        far.sendall(b"in plain")
        with pytest.raises(
            StartupError, match="proc 0 of this client has no TLS for proc 1"
        ):
            encrypted_links(1, {0: near}, token)
        far.close()
