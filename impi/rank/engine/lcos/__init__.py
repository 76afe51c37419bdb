"""LCOs on the engine: ports of two clients, and the packets that name slots."""
