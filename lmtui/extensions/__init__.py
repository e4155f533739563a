"""What people bring with them: MCP servers; each kind in modules of its own, none of which knows of the others."""
