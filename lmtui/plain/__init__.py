"""The line-based front end: a conversation without a full screen."""
