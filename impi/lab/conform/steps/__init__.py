"""What the steps of a test do, and which messages they expect."""
