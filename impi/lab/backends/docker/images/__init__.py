"""The images of a lab's nodes, and their ingredients."""
