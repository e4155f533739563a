"""Small functions for texts, numbers and dates."""
