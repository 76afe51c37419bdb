"""From conversations to jobs: which belong together, what is open, who broke which clause."""
