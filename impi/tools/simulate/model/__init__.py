"""The model: virtual time, networks and machines, and what carries packets through them."""
