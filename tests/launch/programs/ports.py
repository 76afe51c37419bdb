"""Print the ports of the hosts, and one of Open_port; then spawn a proc, which listens, too."""

import sys

from mpi4py import MPI

from impi.rank.api import runtime

CHILD = "from mpi4py import MPI; MPI.Comm.Get_parent().Barrier()"

hosts = [host.port for host in runtime.engine().job.hosts]
port = MPI.Open_port()
line = " ".join(map(str, [*hosts, port.split(":")[2]]))
sys.stdout.write(f"{line}\n")  # in one piece: ranks share the output
sys.stdout.flush()
MPI.Close_port(port)
MPI.COMM_SELF.Spawn(sys.executable, ["-c", CHILD], 1).Barrier()
