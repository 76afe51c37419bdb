"""From streams to what IMPI 0.0 calls them: labels, packets, credit; and each breach of a rule."""
