"""Text that is written from the tables: C stubs, their Python side, headers, Fortran's library."""
