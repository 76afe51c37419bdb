"""The life of a lab: its owner, its reaper, its end, and its leftovers."""
