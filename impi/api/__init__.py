"""What a program means by mpi4py.MPI: handles, buffers and requests over the engine and the collectives."""
