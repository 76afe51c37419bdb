"""Verdicts as users see them: lists by clause, and the page in a browser."""
