"""The measures of ``impi bench``: the experiments by name, and the table of their bounds."""
