"""Instruction files: AGENTS.md, CLAUDE.md and their relatives, persona and profile."""
