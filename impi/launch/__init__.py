"""``impirun``: the server of a job, its clients, a relay, and the start of processes on nodes.

**What is here**, besides small modules that all of them use (listening, heartbeats, signals,
labels of output, standard input)::

    server            impirun -server: the sockets around the server's machine; -file; -slurm
    client            impirun -client: rendezvous, control socket, starters, what follows a loss
    relay             impirun -relay: both ends of what accepts for hosts that accept nothing
    start             how a program is started: nodes, prefixes, launchers of MPI libraries
    pmi               MPICH's process management: its lines, a manager, and the door for procs
    hook              what makes "from mpi4py import MPI" give impi.MPI

**Contract.** Whatever happens, all processes that impirun has started are gone when it ends, and
the last line of its output says why. Processes on nodes run below a starter
(:mod:`impi.base.remote.starter`), which ends them even if impirun is killed. A stranger at a
listener costs its own connection, never the job. Whoever is silent for long is lost. Who starts
jobs is in none: importing ``impi.MPI`` makes one, so nothing here imports it.

**May import** :mod:`impi.cabi`, :mod:`impi.rank`, :mod:`impi.protocol` and :mod:`impi.base`.
Inside, ``server`` may import ``client``, both may import the others, and none of the modules
beside the folders imports a folder.

**Begin** with ``client/session.py``, the loop of one client, and ``server/loop.py``, that of the
server. ``start/program.py`` has the commands that start procs; a launcher of a new kind goes
into ``start/launchers.py``. docs/how-it-works/start-up.md is the walk.
"""
