"""From conversations to jobs: members of each, open items, and breaches of each clause."""
