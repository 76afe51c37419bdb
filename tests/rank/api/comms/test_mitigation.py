"""The calls after a failure, on a job of one proc where nobody is lost."""

from __future__ import annotations

from collections.abc import Callable


def test_agreements_and_revoking(alone: Callable[..., list[str]]) -> None:
    alone("""
comm = MPI.COMM_WORLD.Dup()
assert (comm.Agree(6), comm.Get_failed().size, comm.Ack_failed(), comm.Is_revoked()) == (6, 0, 0, False)
flag = bytearray((5).to_bytes(4, "little"))
comm.Iagree(flag).Wait()
assert flag == (5).to_bytes(4, "little")
try:
    comm.Iagree(bytearray(3))
except ValueError as failure:
    assert str(failure) == "flag: expecting int buffer of length one"
comm.Revoke()
assert comm.Is_revoked() and not MPI.COMM_WORLD.Is_revoked()
refused(MPI.ERR_REVOKED, comm.Barrier)
refused(MPI.ERR_REVOKED, comm.send, 1, 0)
assert comm.Agree(3) == 3  # the way on from a revoked communicator
shrunk = comm.Shrink()
assert (shrunk.size, shrunk.rank, shrunk.Is_revoked()) == (1, 0, False)
later, request = comm.Ishrink()
request.Wait()
assert later.allreduce(4) == 4
""")
