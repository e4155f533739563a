"""Where commands and file tools run: the backends, the client, and the supervisor inside."""
