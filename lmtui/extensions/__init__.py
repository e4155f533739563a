"""What people bring with them: instructions, MCP servers, skills, promoted tools, hooks, commands; and the way to the web."""
