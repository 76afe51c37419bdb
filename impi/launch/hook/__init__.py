"""The folder at the head of the PYTHONPATH of procs."""
