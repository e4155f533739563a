"""lmtui: a full-screen terminal workbench for agents that run on local models."""

__version__ = "0.1.0"
