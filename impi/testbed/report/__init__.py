"""What a run leaves for people and for later runs."""
