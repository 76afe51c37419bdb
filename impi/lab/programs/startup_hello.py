"""The job in every rank's view: its size, its own place, clients and hosts (IMPI 2.3.5, 2.5)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

# The lab looks for its label in the output of impirun.
print(report.plan["nonce"], rank, flush=True)
report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
report.check("rank in range", 0 <= rank < size, True)
attribute = {
    name: comm.Get_attr(getattr(MPI, f"IMPI_{name}"))
    for name in ("CLIENT_SIZE", "CLIENT_COLOR", "HOST_SIZE", "HOST_COLOR")
}
report.check("IMPI_CLIENT_SIZE", attribute["CLIENT_SIZE"], len(report.clients))
report.check("IMPI_CLIENT_COLOR", attribute["CLIENT_COLOR"], report.client)
hosts = report.plan["hosts"]
report.check("IMPI_HOST_SIZE", attribute["HOST_SIZE"], max(hosts) + 1)
report.check("IMPI_HOST_COLOR", attribute["HOST_COLOR"], hosts[rank])
# By messages and Bcast, which every implementation of IMPI has.
seen = array("i", [rank, report.client] * size)
for r in range(1, size):
    one = array("i", [rank, report.client])
    if rank == 0:
        comm.Recv(one, r, 6)
        seen[2 * r : 2 * r + 2] = one
    elif rank == r:
        comm.Send(one, 0, 6)
comm.Bcast(seen, 0)
order = [number for pair in report.plan["order"] for number in pair]
report.check(
    "all ranks, each once, in the order of their clients", seen.tolist(), order
)
report.check(
    "MPI is initialised", MPI.Is_initialized() and not MPI.Is_finalized(), True
)

report.done()
