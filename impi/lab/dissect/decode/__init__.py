"""From streams to the terms of IMPI 0.0: labels, packets, credit; and each breach of a rule."""
