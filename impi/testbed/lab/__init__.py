"""The parts of a lab: its shape, the interface of its nodes, the commands of a job in it."""
