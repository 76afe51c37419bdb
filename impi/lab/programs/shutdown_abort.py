"""MPI_Abort of one rank ends all clients, its own one with its code (IMPI 2.3.7, 2.4)."""

from array import array

from begun import comm, ends_the_others, size  # type: ignore[import-not-found]

if ends_the_others():
    comm.Abort(7)
comm.Recv(array("B", bytes(8)), size - 1, 70)  # a message that never comes
