"""The progress engine of a proc: messages over channels and the vendor library, start-up, waits."""
