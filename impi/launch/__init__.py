"""``impirun``: the server of a job, and its clients, whose procs starters run on their nodes."""
