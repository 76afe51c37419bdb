"""What is measured: the experiments by name, and the table of their bounds."""
