"""Runs cells in labs and gathers their evidence."""
