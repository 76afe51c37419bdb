"""The model: virtual time, networks and machines, and the transports that carry packets."""
