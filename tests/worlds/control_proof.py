"""impirun's end of the proof on its control socket, for tests that play impirun."""

from __future__ import annotations

import socket

from impi.protocol.proofs import NONCE_SIZE, PROOF_SIZE, Keeper
from impi.rank.doors.introduce import new_nonce, receive_exactly
from impi.rank.vendors.meeting import CONTROL_HEAD


def prove(sock: socket.socket, token: str) -> None:
    """Let both ends prove that they know the token (hex); the line of JSON comes next."""
    nonce = receive_exactly(sock, len(CONTROL_HEAD) + NONCE_SIZE)[len(CONTROL_HEAD) :]
    keeper = Keeper(bytes.fromhex(token), CONTROL_HEAD, nonce, new_nonce())
    sock.sendall(keeper.answer)
    assert keeper.accepts(receive_exactly(sock, PROOF_SIZE))
