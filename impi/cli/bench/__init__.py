"""``impi bench``: its options, its run and its profile."""
