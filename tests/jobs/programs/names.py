"""Published names: ``alone`` in one job, or ``publish`` and ``lookup`` of two jobs that meet."""

import sys
import time

from mpi4py import MPI

role, *server = sys.argv[1:]
world = MPI.COMM_WORLD
SERVICE = "the ocean's wärme"
info = MPI.Info.Create({"impi_server": server[0]}) if server else MPI.INFO_NULL


def fails(error_class, call, *args):
    try:
        call(*args)
    except MPI.Exception as failure:
        assert failure.Get_error_class() == error_class, failure
        return str(failure)
    raise AssertionError(call)


def found():
    until = time.monotonic() + 60
    while True:
        try:
            return MPI.Lookup_name(SERVICE, info)
        except MPI.Exception as failure:
            assert failure.Get_error_class() == MPI.ERR_NAME, failure
            assert time.monotonic() < until, failure
            time.sleep(0.02)


match role:
    case "alone":
        if world.rank == 0:
            port = MPI.Open_port()
            print(fails(MPI.ERR_NAME, MPI.Lookup_name, SERVICE))
            print(fails(MPI.ERR_SERVICE, MPI.Unpublish_name, SERVICE, port))
            MPI.Publish_name(SERVICE, port)
            print(fails(MPI.ERR_SERVICE, MPI.Publish_name, SERVICE, port))
            print(fails(MPI.ERR_SERVICE, MPI.Unpublish_name, SERVICE, "another"))
        world.Barrier()
        ports = world.allgather(MPI.Lookup_name(SERVICE))
        assert len(set(ports)) == 1
        world.Barrier()
        if world.rank == 0:
            assert ports[0] == port
            MPI.Unpublish_name(SERVICE, port)
            fails(MPI.ERR_NAME, MPI.Lookup_name, SERVICE)
            MPI.Close_port(port)
    case "publish":
        port = MPI.Open_port() if world.rank == 0 else ""
        if world.rank == 0:
            MPI.Publish_name(SERVICE, port, info)
        inter = world.Accept(port)
        if world.rank == 0:
            MPI.Unpublish_name(SERVICE, port, info)
        print("met", inter.allgather(role))
        inter.Disconnect()
    case "lookup":
        inter = world.Connect(found() if world.rank == 0 else "")
        print("met", inter.allgather(role))
        inter.Disconnect()
    case "parent":
        port = MPI.Open_port()
        MPI.Publish_name(SERVICE, port)
        child = MPI.COMM_SELF.Spawn(sys.executable, [__file__, "child"])
        assert child.recv() == port
        child.Disconnect()
    case "child":
        parent = MPI.Comm.Get_parent()
        parent.send(MPI.Lookup_name(SERVICE), 0)
        parent.Disconnect()
    case "refused":
        print(fails(MPI.ERR_SERVICE, MPI.Lookup_name, SERVICE, info))
