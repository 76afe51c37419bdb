"""The start of a program: its nodes and environment, the MPI library's prefix and launcher."""
