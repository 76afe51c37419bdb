"""``python -m impi``: the same as the command ``impi``."""

import sys

from impi.cli.entry import impi

if __name__ == "__main__":
    sys.exit(impi())
