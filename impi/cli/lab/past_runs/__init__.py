"""Verbs of impilab about runs that are over: pages, copies, repetitions, removal."""
