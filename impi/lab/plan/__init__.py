"""All cells, and the choice of those that a run consists of."""
