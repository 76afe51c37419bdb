"""``impi bench``: the costs of IMPI as ratios to its parts, measured side by side in one run."""
