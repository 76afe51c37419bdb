"""Cases of MPI's calls: messages, collectives, communicators, windows, files, by family."""
