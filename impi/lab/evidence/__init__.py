"""The observations of one cell, as values: calls, stacks, witnesses, traffic."""
