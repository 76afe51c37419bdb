"""What was seen of one cell, as values: calls, stacks, witnesses, traffic."""
