"""The implementation of MPI's functions for C, a module for each kind of object."""
