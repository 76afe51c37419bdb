"""The names that a program means by mpi4py.MPI, over the engine and the collectives.

Seven folders in layers, beside modules that all or none of them need. Each imports only from the
lines below it, also lazily and for types; pyproject.toml has the contracts::

    environment              initialisation, versions, names, time
    files | windows          octets of a file | memory accessed without a message
    comms                    communicators, groups, sessions, COMM_WORLD, verification
    collective               collective calls, and the choice of their algorithms
    p2p                      point-to-point calls, requests, statuses
    types                    datatypes, operations, buffer specifications, memory, pickles
    handles                  handles, error handlers, Info, the guard of every call
    constants | runtime      MPI's integers | the one engine of this process
    rc                       the program's choices: mpi4py.rc and MPI4PY_RC_*
"""
