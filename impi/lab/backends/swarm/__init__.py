"""The backend ``swarm``: labs on the engines of an existing Docker swarm."""
