"""The composition root: builds a host and its sessions from the engine, the tools, the sandbox and the features."""
