"""The backend ``local``: nodes are loopback addresses and folders of this machine."""
