"""Tables of MPI: its functions from the standard, constants from the headers of MPI libraries."""
