"""The command line without a screen: `lmtui run` and the subcommands."""
