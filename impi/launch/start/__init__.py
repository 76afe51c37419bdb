"""How a program is started: its nodes and environment, the MPI library's prefix and launcher."""
