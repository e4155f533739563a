"""The program that runs inside every sandbox: stdlib only, Python 3.9 on, mounted read-only and started by its folder."""
