"""Libraries with MPI's C interface over :mod:`impi.MPI`, for compiled programs of three ABIs.

**Packages**, in the order in which a library is made and used::

    tables            the functions of MPI and the constants of an ABI, as their sources say
    text              the C side of a library and its Python side, written from the tables
    library           both compiled once and kept; what a program file needs; vendors' own libraries
    objects           handles, constants, failures and memory, as C and as Python have them
    calls             MPI's functions by kind of object, from MPI_Init to the end

The data is beside this file. ``ci/cabi_tables.py`` writes ``functions.json`` and ``constants/``.
``calls.toml`` names the call behind each function. ``start.c``, ``kept.c``, ``fortran.c`` and
``usher.c`` are written by hand.

**Contract.** C calls a stub, which converts C types only and calls Python. Python looks up
handles, turns addresses into buffers, calls mpi4py's names, and stores results through pointers.
No exception passes into C: it becomes an error code of the ABI. ``calls.toml`` and the generated
text name the modules in ``objects`` and ``calls``, so rename them in both places. A change of any
file here makes new libraries, because the cache's key is a digest of these files.

**May import** :mod:`impi.rank`, :mod:`impi.protocol` and :mod:`impi.base`. Inside, a package
imports only from those above it in the table; ``objects`` and ``library`` do not know each other.

**Begin** with ``calls.toml``, then ``text/emit.py`` for the stubs and ``text/marshal.py`` for what
Python does. In a process, ``calls/connection.py`` connects the two sides.
docs/how-it-works/compiled-programs.md is the walk.
"""
