"""The folder that impirun puts on the PYTHONPATH of its procs."""
