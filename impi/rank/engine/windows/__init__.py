"""One-sided communication by messages: the origin's side, the target's side, their headers."""
