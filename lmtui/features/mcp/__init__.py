"""MCP servers: configuration, connections, trust, and their tools, prompts and resources."""
