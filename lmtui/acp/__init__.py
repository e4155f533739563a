"""The front end for editors: an agent of the Agent Client Protocol (ACP, v1) on standard input and output."""
