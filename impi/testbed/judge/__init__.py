"""From evidence to a verdict, an explanation of a hang, and what was expected."""
