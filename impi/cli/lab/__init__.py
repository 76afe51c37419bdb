"""The verbs of ``impilab``."""
