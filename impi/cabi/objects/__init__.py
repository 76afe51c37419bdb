"""Objects of MPI as C and Python have them: handles, constants, failures, memory with strings."""
