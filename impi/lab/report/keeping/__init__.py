"""The later life of a run: how long it stays, and how you hand on one of its cells."""
