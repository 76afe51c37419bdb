"""Parts of a run's folder: the user's program, the names of the machine, and the newest run."""
