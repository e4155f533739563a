"""The pipeline: plans whose tasks agents work on, one after the other."""
