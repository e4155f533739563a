"""Skills, tools that were made of functions, and sub-agents defined in Markdown files."""
