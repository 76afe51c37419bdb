"""The acts of a test's steps, and the messages that they expect."""
