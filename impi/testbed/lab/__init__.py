"""What a lab is made of: its shape, the interface of its nodes, the commands of a job in it."""
