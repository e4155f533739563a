"""A model that runs without a server, in its own process (extra `embedded`)."""
