"""Captures of cells, whatever machine tcpdump runs on: canaries, cuts, statistics."""
