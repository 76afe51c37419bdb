"""The backend ``ssh``: hosts that exist, which a file names."""
