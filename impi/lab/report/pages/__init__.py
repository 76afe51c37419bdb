"""A run as pages: a folder that works from any disk and page host, and loads no other file.

``run_pages`` writes the pages of one run into its own folder, from ``results.json`` and the files
of its cells. ``site`` copies them elsewhere and adds the history of several runs. ``views`` turns
records into what templates show, and ``templates`` has the templates.
"""
