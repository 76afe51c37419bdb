"""The commands: impirun, impi and impilab, what their options mean, and how they end."""
