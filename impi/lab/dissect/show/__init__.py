"""Observations as records, as lines of text, and as counts."""
