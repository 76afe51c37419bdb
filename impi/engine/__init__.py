"""One proc of a running job: the only place where anything is sent, received or waited for."""
