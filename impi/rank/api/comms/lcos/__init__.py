"""Communicators that one proc makes alone (LCOs), and endpoints, whose threads are ranks."""
