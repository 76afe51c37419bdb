"""Compiled libraries: made once and kept, matched to a program's file, beside a vendor's own."""
