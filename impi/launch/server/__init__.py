"""``impirun -server``: the rendezvous process of a job, also where it starts the clients itself."""
