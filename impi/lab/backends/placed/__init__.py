"""What backends share whose nodes an existing scheduler places: a swarm, a Kubernetes cluster."""
