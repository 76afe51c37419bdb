"""Connections between the procs of a client: who is let in, and who is not."""

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from impi.base.errors import StartupError
from impi.protocol.proofs import ANSWER_SIZE, NONCE_SIZE, PROOF_SIZE
from impi.rank.doors.introduce import receive_exactly
from impi.rank.vendors.meeting import AGENT, Door, knock

DEADLINE_S = 60.0


def meet(door: Door, rank: int, peers: list[dict], token: str = "aa" * 16, timeout_s: float = DEADLINE_S):
    return door.meet(rank, peers, token, timeout_s)


@pytest.mark.parametrize("kind", ["unix", "tcp", "unix that is gone"])
def test_strangers_are_kept_out_and_keep_nobody_out(kind):
    with Door("127.0.0.1", 4) as low, Door("127.0.0.1", 4) as high, ThreadPoolExecutor(1) as pool:
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
    with Door("127.0.0.1", 4) as low, Door("127.0.0.1", 4) as high, ThreadPoolExecutor(1) as pool:
        peers = [low.address, high.address]
        waiting = pool.submit(meet, low, 0, peers, "bb" * 16, 1.0)
        with pytest.raises(StartupError, match=r"is not proc 0 of this client: it does not know the token"):
            meet(high, 1, peers)
        with pytest.raises(StartupError, match=r"proc 0 waited in vain for proc 1"):
            waiting.result(DEADLINE_S)


def test_an_agent_is_met_by_just_its_procs():
    token = "aa" * 16
    with Door("127.0.0.1", 4) as door, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(door.admit, AGENT, [3, 5], token, DEADLINE_S)
        with pytest.raises(StartupError, match="the agent of this client did not answer proc 4"):
            knock(4, AGENT, door.address, token, DEADLINE_S)
        near = knock(5, AGENT, door.address, token, DEADLINE_S)
        far = knock(3, AGENT, {**door.address, "node": "another node"}, token, DEADLINE_S)
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
        # What it heard does not prove anything in the other direction.
        sock.sendall((hello[12:] * 2)[:ANSWER_SIZE])
        with pytest.raises(StartupError, match="does not know the token"):
            proc.result(DEADLINE_S)
        sock.close()
