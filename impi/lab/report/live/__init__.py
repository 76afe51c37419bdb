"""A run as pages while it goes on: ``so_far`` has its results until now, ``server`` the pages."""
