"""Notes that last: files, recall, search, and an inbox of what sessions taught."""
