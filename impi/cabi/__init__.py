"""Libraries with MPI's C interface over :mod:`impi.MPI`, for compiled programs of three ABIs.

**What is here**, in the order in which a library comes about and is used::

    tables            the functions of MPI and the constants of an ABI, as their sources say
    text              the C side of a library and its Python side, written from the tables
    library           both compiled once and kept; what a program file needs; vendors' own libraries
    objects           handles, constants, failures and memory, as C and as Python have them
    calls             what the functions do: by kind of object, from MPI_Init to the end

The data is beside this file: ``functions.json`` and ``constants/`` come from
``ci/cabi_tables.py``, ``calls.toml`` says for each function what it calls, ``start.c`` and
``fortran.c`` are fixed text.

**Contract.** C calls a stub; a stub converts C types alone and calls Python; Python looks handles
up, makes buffers of addresses, calls mpi4py's names, and stores results through pointers. No
exception passes into C: it becomes a code of the ABI. Names of the modules in ``objects`` and
``calls`` appear in ``calls.toml`` and in the generated text: who renames one changes both. A
change of any file here makes new libraries, since the cache goes by the text of this room.

**May import** :mod:`impi.rank`, :mod:`impi.protocol` and :mod:`impi.base`. Inside, a package
imports only from those above it in the table; ``objects`` and ``library`` do not know each other.

**Begin** with ``calls.toml``, then ``text/emit.py`` for the stubs and ``text/marshal.py`` for what
Python does. In a process, ``calls/connection.py`` connects the two sides.
docs/how-it-works/compiled-programs.md is the walk.
"""
