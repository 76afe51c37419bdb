"""The images of a lab's nodes, and what they are made of."""
