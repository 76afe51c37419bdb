"""The files of a run, for users and for later runs."""
