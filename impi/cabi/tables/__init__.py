"""What the standard and the headers of MPI libraries say, as tables."""
