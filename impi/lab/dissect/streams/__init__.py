"""From the octets of a capture file to two streams for each TCP connection."""
