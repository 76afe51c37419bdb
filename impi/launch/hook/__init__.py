"""The folder that stands first on the PYTHONPATH of procs, for its ``sitecustomize``."""
