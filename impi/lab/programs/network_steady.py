"""Messages while the lab interferes with nodes, ranks and their network (IMPI 2.3.7, 3.8)."""

from array import array

from stage import stage  # type: ignore[import-not-found]

stage("init")

from begun import comm, rank, report, size  # type: ignore[import-not-found]  # noqa: E402

right, left = (rank + 1) % size, (rank - 1) % size
octets, wanted = (
    report.octets(f"steady/{rank}", 256),
    report.octets(f"steady/{left}", 256),
)
into, right_each_time = array("B", bytes(256)), True

stage("case")
for _ in range(report.plan["params"]["rounds"]):
    comm.Sendrecv(octets, right, 7, into, left, 7)
    right_each_time = right_each_time and into.tobytes() == wanted
    into[:] = array("B", bytes(256))
report.check("octets from the left, each time", right_each_time, True)
report.done()
stage("finalize")
