"""mpi-master-slave: a queue of work; results come in any order."""

from mpi4py import MPI
from mpi_master_slave import Master, Slave, WorkQueue


class Squares(Slave):
    def do_work(self, data):
        return data, data * data


if MPI.COMM_WORLD.rank == 0:
    master = Master(range(1, MPI.COMM_WORLD.size))
    queue = WorkQueue(master)
    for n in range(20):
        queue.add_work(n)
    results = []
    while not queue.done():
        queue.do_work()
        results += queue.get_completed_work()
    master.terminate_slaves()
    print(sorted(results))
else:
    Squares().run()
