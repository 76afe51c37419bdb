"""A job of which one client is under test: octets, sockets that record them, simulated procs."""
