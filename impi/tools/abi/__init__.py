"""``impilab abi``: MPI libraries held against the standard ABI of MPI 5.0, and each with each.

:mod:`.audit` looks at the files of a library and runs none of them; :mod:`.matrix` compiles a
program with each library and runs it under each, and under all in one job. What the ABI demands is
in :mod:`.demands`, from the tables of :mod:`impi.cabi.tables`.
"""
