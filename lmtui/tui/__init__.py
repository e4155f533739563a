"""The full-screen application."""
