"""One file of all, refused if no file system is shared; then one client accesses it for all."""

from pathlib import Path

from begun import report  # type: ignore[import-not-found]
from mpi4py import MPI

world = MPI.COMM_WORLD
rank = report.rank
block, count = report.plan["params"]["block"], report.plan["params"]["count"]

# The ranks that see files of rank 0, as the system says
path = world.bcast(str(report.folder / "shared"), root=0)
if rank == 0:
    (report.folder / "seen").write_text(report.plan["nonce"], "utf-8")
world.Barrier()
sees = Path(path).with_name("seen").exists()
blind = [r for r, saw in enumerate(world.allgather(sees)) if not saw]


def interleave(file: MPI.File, comm: MPI.Comm, label: str) -> bytes:
    """Write every size-th block through a view, and return the blocks of the next rank."""

    mine, size = comm.rank, comm.size
    blocks = (
        MPI.BYTE.Create_vector(count, block, block * size)
        .Create_resized(0, block * size * count)
        .Commit()
    )
    file.Set_view(block * mine, MPI.BYTE, blocks)
    file.Write_all(report.octets(f"{label}/{mine}", block * count))
    file.Sync()
    into = bytearray(block * count)
    file.Set_view(block * ((mine + 1) % size), MPI.BYTE, blocks)
    file.Read_all(into)

    return bytes(into)


# Without a name of a client, all open it
mode = MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE
try:
    file = MPI.File.Open(world, path, mode)
except MPI.Exception as failure:
    named = (
        f"rank {blind[0]} does"
        if len(blind) == 1
        else f"ranks {', '.join(map(str, blind))} do"
    )
    told = f"{named} not see the file that rank 0 has opened" in str(failure)
    report.check("who does not see it", (told, bool(blind)), (True, True))
    report.check("class of the error", failure.Get_error_class(), MPI.ERR_NO_SUCH_FILE)
else:
    report.check("who does not see it", [], blind)
    got = interleave(file, world, "all")
    report.check(
        "blocks of the next rank",
        got,
        report.octets(f"all/{(rank + 1) % world.size}", block * count),
    )
    file.Close()

# The procs of client 0 on the node of rank 0 access it for all others
users = report.clients[0]
has_node = world.bcast(report.node_nonce(), root=0) == report.node_nonce()
takes_part = rank not in users or has_node
team = world.Split(0 if takes_part else MPI.UNDEFINED, rank)
if isinstance(team, MPI.Intracomm) and takes_part:
    file = MPI.File.Open(team, path, mode, MPI.Info.Create({"impi_io_client": "0"}))
    got = interleave(file, team, "one")
    following = report.octets(f"one/{(team.rank + 1) % team.size}", block * count)
    report.check("blocks of the next rank, by client 0", got, following)
    team.Barrier()
    if rank == 0:
        octets = Path(path).read_bytes()
        parts = [report.octets(f"one/{r}", block * count) for r in range(team.size)]
        rows = (
            part[i * block : (i + 1) * block] for i in range(count) for part in parts
        )
        report.check("the file", octets, b"".join(rows))
    team.Barrier()
    file.Close()

report.done()
