"""From evidence to a verdict, to the cause of a hang, and to the comparison with expectations."""
