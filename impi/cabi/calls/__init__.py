"""What MPI's functions do when C calls them, a module for each kind of object."""
