"""What is kept on disk: session logs."""
