"""Conversions between C and Python: handles, constants, errors, and memory with strings."""
