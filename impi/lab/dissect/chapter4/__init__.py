"""The messages of chapter 4 as the judges expect them, and its tags: one oracle for all judges."""
