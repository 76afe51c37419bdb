"""Procs that start others: prints what each side sees of the other."""

import socket
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
parents = MPI.Comm.Get_parent()
if parents != MPI.COMM_NULL:
    theirs = parents.allgather(("child", world.rank))
    assert theirs == [("parent", rank) for rank in range(parents.Get_remote_size())]
    if world.rank == 0:
        assert parents.recv(source=0) == "hello"
        parents.send((sys.argv[1:], world.size), 0)
    assert world.Get_attr(MPI.UNIVERSE_SIZE) == world.size
    if "silent" not in sys.argv:
        parents.Disconnect()
    sys.exit()


def talked(children):
    theirs = children.allgather(("parent", world.rank))
    assert theirs == [("child", rank) for rank in range(children.Get_remote_size())]
    if world.rank == 0:
        children.send("hello", 0)
        print(*children.recv(source=0))
    children.Disconnect()


codes: list[int] = []
talked(world.Spawn(sys.executable, [__file__, "one"], maxprocs=2, errcodes=codes))
assert codes == [0, 0]
infos = [
    MPI.Info.Create({"impi_vendor": "pure"}),
    MPI.Info.Create({"impi_vendor": "mpich"}),
]
argv = [[__file__, "two"], [__file__, "three"]]
talked(
    world.Spawn_multiple([sys.executable] * 2, argv, [1, 2], infos, root=world.size - 1)
)
self_made = (
    MPI.COMM_SELF.Spawn(sys.executable, [__file__, "four"]) if world.rank == 0 else None
)
if self_made is not None:
    assert self_made.allgather(("parent", 0)) == [("child", 0)]
    self_made.send("hello", 0)
    print(*self_made.recv(source=0))
    self_made.Disconnect()
try:
    world.Spawn("/no/such/program")
except MPI.Exception as failure:
    assert failure.Get_error_class() == MPI.ERR_SPAWN
    if world.rank == 0:
        print("refused")
# In one job: some procs accept, the others connect, and two join by a socket of their own.
name = world.bcast(MPI.Open_port() if world.rank == 0 else None)
part = world.Split(world.rank > 0)
inter = part.Accept(name) if world.rank == 0 else part.Connect(name)
assert inter.allgather(world.rank) == (
    [*range(1, world.size)] if world.rank == 0 else [0]
)
inter.Disconnect()
if world.rank == 0:
    MPI.Close_port(name)
    listener = socket.create_server(("127.0.0.1", 0))
    world.send(listener.getsockname(), 1)
    end, _ = listener.accept()
elif world.rank == 1:
    end = socket.create_connection(world.recv(source=0))
if world.rank < 2:
    pair = MPI.Comm.Join(end.fileno())
    assert pair.Get_size() == pair.Get_remote_size() == 1
    assert pair.sendrecv(world.rank, 0, source=0) == 1 - world.rank
    pair.Disconnect()
for wrong in (
    lambda: MPI.Close_port("impi:127.0.0.1:1:00"),
    lambda: world.Connect("impi:127.0.0.1:1:00"),
):
    try:
        wrong()
    except MPI.Exception as failure:
        assert failure.Get_error_class() == MPI.ERR_PORT, failure
    else:
        raise AssertionError
# One number, one word and one object are those of every program; what does not fit is refused.
if world.rank == 0:
    talked(
        MPI.COMM_SELF.Spawn_multiple(
            [sys.executable] * 2, [[__file__, "five"]] * 2, 1, MPI.INFO_NULL
        )
    )
    for arguments in (
        (sys.executable, None, [1], [MPI.INFO_NULL]),
        ([sys.executable], [["a"], ["b"]], [1], [MPI.INFO_NULL]),
        ([sys.executable], "a", [1, 1], [MPI.INFO_NULL]),
        ([sys.executable], None, 1, [MPI.INFO_NULL] * 2),
    ):
        try:
            MPI.COMM_SELF.Spawn_multiple(*arguments)
        except ValueError:
            continue
        raise AssertionError(arguments)
