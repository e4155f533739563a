"""A model that runs without a server, in a process of its own (extra `embedded`)."""
