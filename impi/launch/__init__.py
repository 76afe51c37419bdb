"""``impirun``: the server of a job, its clients, a relay, and the start of processes on nodes.

**Packages**; the small modules beside them serve all (listening, heartbeats, signals, labels of
output, standard input)::

    server            impirun -server: the sockets around the server's machine; -file; -slurm
    client            impirun -client: rendezvous, control socket, starters, losses
    relay             impirun -relay: both ends of a process that accepts for hosts behind NAT
    start             the start of a program: nodes, prefixes, launchers of MPI libraries
    pmi               MPICH's process management: its lines, a manager, and the door for procs
    hook              makes "from mpi4py import MPI" give impi.MPI

**Contract.** Whatever happens, all processes that impirun has started are gone when it ends, and
the last line of its output says why. Processes on nodes run below a starter
(:mod:`impi.base.remote.starter`), which ends them even if impirun is killed. A stranger at a
listener costs its own connection, never the job. A process that is silent for
``--heartbeat-timeout`` is lost. Nothing here imports ``impi.MPI``, because the import joins a job.

**May import** :mod:`impi.cabi`, :mod:`impi.rank`, :mod:`impi.protocol` and :mod:`impi.base`.
Inside, ``server`` may import ``client``, both may import the other packages, and a module beside
the packages imports none of them.

**Begin** with ``client/session.py``, the loop of one client, and ``server/loop.py``, that of the
server. ``start/program.py`` has the commands that start procs; a launcher of a new kind goes
into ``start/launchers.py``. docs/how-it-works/start-up.md is the walk.
"""
