"""The tests, which are files: their steps as records, read and checked before a job begins."""
