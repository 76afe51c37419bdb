"""``impirun -relay`` and its near end: connections to hosts that cannot accept any."""
