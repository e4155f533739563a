"""Controllers: each answers some commands of the workbench."""
