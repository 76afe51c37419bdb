"""The code in a process of the job: mpi4py's classes, the engine below them, and MPI libraries.

**What is here**, from the program down to the sockets::

    api | agent       the names that a program means by mpi4py.MPI | a host of several procs
    engine            drives all activities of a proc while it waits
    vendors           transport inside one client: our own, or an MPI library's
    doors             connections at listeners: members of the job, and strangers

``impi.MPI`` collects the names of :mod:`.api`. A call goes from a class of ``api`` to a route,
from there to the engine or to the MPI library, and from the engine through the machines of
:mod:`impi.protocol` to a socket.

**Contract.** One engine a process; one thread at a time in it. Local communication pays nothing
for IMPI: between procs of one client the library does the work. Each call of the API is guarded
once, so that an error reaches the program's error handler, and an error of the job ends the
process. No vendor knows an engine, an IMPI communicator or a datatype, and vendors do not know
each other. Each start of a rank loads this room: a module at its top imports only what every job
needs.

**May import** :mod:`impi.protocol` and :mod:`impi.base`. It knows nothing of impirun: an
invitation in the environment, and one connection to the process that started it, are all that
joins them.

**Begin** with ``api/p2p/routes.py`` for a message, with ``engine/engine.py`` for a wait, with
``vendors/base.py`` for the duties of an MPI library, and with ``engine/job/bootstrap.py`` for how
a process becomes a proc. docs/how-it-works/a-message.md is the walk through all of it.
"""
