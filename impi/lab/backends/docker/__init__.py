"""The backend ``docker``: nodes are containers, reached by SSH, with captures."""
