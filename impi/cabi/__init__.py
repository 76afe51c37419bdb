"""Libraries with MPI's C interface over :mod:`impi.MPI`, for compiled programs of three ABIs.

:mod:`.abi_tables` reads what the standard and the headers of MPI libraries say (``functions.json``,
``constants/``). :mod:`.emit` writes the C side of a library from it, :mod:`.marshal` the Python
side, and :mod:`.build` compiles both. In a process, :mod:`.connection` connects the two sides;
:mod:`.launch` finds out how a program is to be started. See docs/how-it-works/compiled-programs.md.
"""
