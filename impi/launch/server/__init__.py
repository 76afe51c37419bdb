"""``impirun -server``: the rendezvous process of a job, which may also start the clients."""
