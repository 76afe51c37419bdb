"""Which cells there are, and which of them a run consists of."""
