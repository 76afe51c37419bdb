"""Attributes and names travel with a duplicate as their copy functions say."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

copied = MPI.Comm.Create_keyval(
    copy_fn=lambda _comm, _key, value: value + 1, delete_fn=None
)
kept = MPI.Comm.Create_keyval()
comm.Set_attr(copied, 10 * rank)
comm.Set_attr(kept, "own")
twin = comm.Dup()
report.check("copied", twin.Get_attr(copied), 10 * rank + 1)
report.check("not copied", twin.Get_attr(kept), None)
comm.Delete_attr(copied)
report.check("deleted", comm.Get_attr(copied), None)
twin.Set_name("twin")
report.check("name", (comm.Get_name(), twin.Get_name()), ("MPI_COMM_WORLD", "twin"))
into = array("B", bytes(14))
twin.Sendrecv(report.octets(f"attributes/{rank}", 14), to, 7, into, source, 7)
report.check("message", into.tobytes(), report.octets(f"attributes/{source}", 14))
twin.Free()

report.done()
