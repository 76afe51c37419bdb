"""``impirun -client``: one client of a job, from its plan to FINI. Begin with :mod:`.session`."""
