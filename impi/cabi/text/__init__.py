"""Text generated from the tables: C stubs, their Python side, headers, the library for Fortran."""
