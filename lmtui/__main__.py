"""The entry point.  What is needed only to say the version or to explain the options stays unimported."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return the exit code."""
    if sys.argv[1:] == ["--version"]:
        from lmtui import __version__  # noqa: PLC0415  (start-up)

        print(f"lmtui {__version__}")
        return 0
    from lmtui.cli import run  # noqa: PLC0415  (start-up)

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
