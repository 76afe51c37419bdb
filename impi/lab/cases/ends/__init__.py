"""Cases of how jobs start, last and end: faults, losses, broken networks, long runs."""
