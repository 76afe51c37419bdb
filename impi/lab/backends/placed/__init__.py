"""The common part of backends whose nodes an existing scheduler places: swarm, cluster."""
