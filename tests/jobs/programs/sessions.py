"""Sessions, attached buffers, error handlers, refusals. Rank 0 prints "all right"."""

import sys
from collections.abc import Callable

from mpi4py import MPI

comm = MPI.COMM_WORLD


def fails(error_class: int, call, *args) -> None:
    try:
        call(*args)
    except MPI.Exception as error:
        assert error.Get_error_class() == error_class, error
    else:
        raise AssertionError(f"{call} did not fail")


def sessions() -> None:
    session = MPI.Session.Init()
    assert [session.Get_nth_pset(n) for n in range(session.Get_num_psets())] == [
        "mpi://WORLD",
        "mpi://SELF",
    ]
    assert session.Get_pset_info("mpi://world").Get("mpi_size") == str(comm.size)
    group = MPI.Group.Create_from_session_pset(session, "mpi://WORLD")
    made = MPI.Intracomm.Create_from_group(group)
    assert MPI.Comm.Compare(made, comm) == MPI.CONGRUENT
    made.Free()
    fails(MPI.ERR_ARG, session.Create_group, "mpi://MOON")
    fails(MPI.ERR_ARG, session.Get_nth_pset, 2)
    seen = []
    handler = MPI.Session.Create_errhandler(
        lambda owner, code: seen.append((owner == session, code))
    )
    session.Set_errhandler(handler)
    session.Call_errhandler(MPI.ERR_TAG)
    assert seen == [(True, MPI.ERR_TAG)]
    fails(MPI.ERR_ERRHANDLER, session.Set_errhandler, MPI.ERRHANDLER_NULL)
    session.Finalize()
    assert session == MPI.SESSION_NULL
    fails(MPI.ERR_SESSION, session.Finalize)


def buffers() -> None:
    """A communicator's own buffer is used for its sends, and for no other's."""
    mine = comm.Dup()
    fails(MPI.ERR_BUFFER, mine.Bsend, bytes(10), mine.rank)
    buffer = MPI.Alloc_mem(10 + MPI.BSEND_OVERHEAD)
    mine.Attach_buffer(buffer)
    fails(MPI.ERR_BUFFER, mine.Attach_buffer, buffer)
    fails(MPI.ERR_BUFFER, comm.Bsend, bytes(10), comm.rank)
    fails(MPI.ERR_BUFFER, mine.Bsend, bytes(11), mine.rank)
    mine.Bsend(bytes(10), mine.rank)
    request = mine.Iflush_buffer()
    mine.Recv(bytearray(10), mine.rank)
    request.Wait()
    assert mine.Detach_buffer() is buffer
    mine.Free()


def session_buffers() -> None:
    """A session's buffer serves the communicators derived from it, and no others."""
    session = MPI.Session.Init()
    group = MPI.Group.Create_from_session_pset(session, "mpi://WORLD")
    made = MPI.Intracomm.Create_from_group(group.Incl(range(group.size)))
    copy = made.Dup()
    for each in (made, copy):
        fails(MPI.ERR_BUFFER, each.Bsend, bytes(10), each.rank)
    session.Attach_buffer(MPI.Alloc_mem(10 + MPI.BSEND_OVERHEAD))
    fails(MPI.ERR_BUFFER, comm.Bsend, bytes(10), comm.rank)
    for each in (made, copy):
        fails(MPI.ERR_BUFFER, each.Bsend, bytes(11), each.rank)
        each.Bsend(bytes(10), each.rank)
        each.Recv(bytearray(10), each.rank)
        session.Flush_buffer()
    session.Detach_buffer()
    for each in (copy, made):
        fails(MPI.ERR_BUFFER, each.Bsend, bytes(10), each.rank)
        each.Free()
    session.Finalize()


def handlers() -> None:
    seen = []
    mine = comm.Dup()
    handler = MPI.Comm.Create_errhandler(
        lambda owner, code: seen.append((owner == mine, code))
    )
    mine.Set_errhandler(handler)
    copy = mine.Dup()
    handler.Free()
    mine.Call_errhandler(MPI.ERR_RANK)
    assert seen == [(True, MPI.ERR_RANK)]
    # As mpi4py has it
    assert copy.Get_errhandler() == MPI.ERRORS_RETURN != mine.Get_errhandler()
    fails(MPI.ERR_ERRHANDLER, mine.Set_errhandler, MPI.ERRHANDLER_NULL)
    copy.Free()
    mine.Free()


def refused() -> None:
    calls: list[tuple[Callable[..., object], str]] = [
        (MPI.Create_local().Idup_with_info, "MPI_Comm_idup_with_info of an LCO"),
    ]
    for call, name in calls:
        try:
            call(None)
        except NotImplementedError as error:
            assert str(error).startswith(f"{name} is not supported")
        else:
            raise AssertionError(name)
    fails(MPI.ERR_COMM, comm.Free)
    fails(MPI.ERR_ROOT, comm.bcast, None, comm.size)
    fails(MPI.ERR_ARG, comm.Create_cart, [comm.size + 1])
    fails(MPI.ERR_DIMS, comm.Create_cart, [0])
    fails(MPI.ERR_RANK, comm.Create_dist_graph_adjacent, [comm.size], [])
    fails(MPI.ERR_TOPOLOGY, comm.Create_graph, [2, 1], [0, 0])
    fails(MPI.ERR_ARG, comm.Psend_init, bytearray(4), 0, 0)


for check in (sessions, buffers, session_buffers, handlers, refused):
    check()
    comm.Barrier()
if comm.rank == 0:
    print("all right")
sys.stdout.flush()
