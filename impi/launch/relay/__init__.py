"""``impirun -relay`` and its other end: connections for hosts that accept none."""
