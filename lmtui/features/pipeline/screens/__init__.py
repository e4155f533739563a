"""The page of the pipeline."""
