"""The backend ``kubernetes``: labs of Jobs in a namespace of an existing cluster."""
