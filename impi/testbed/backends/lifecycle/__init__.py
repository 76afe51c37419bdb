"""The life of a lab: its owner, its reaper, its end, and what it leaves."""
