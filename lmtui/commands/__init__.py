"""What can be asked of a session by name: the commands of every front end, each next to what it does."""
