"""``impi bench``: what IMPI costs beside what it is made of, measured side by side in one run, as ratios."""
