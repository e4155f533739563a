"""Parts of the workbench, each answering some of its commands."""
