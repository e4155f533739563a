"""The entry point.  What is needed only to say the version or to explain the options stays unimported."""

from __future__ import annotations

import sys
from pathlib import Path

from lmtui.app.process import drop_relative_path_entries, protect_process, receive_environment


def main() -> int:
    """Run the command line and return the exit code."""
    _forget_current_folder()
    if sys.argv[1:] == ["--version"]:
        from lmtui import __version__  # noqa: PLC0415  (start-up)

        print(f"lmtui {__version__}")
        return 0
    protect_process()
    receive_environment()
    drop_relative_path_entries()
    from lmtui.cli import run  # noqa: PLC0415  (start-up)

    return run(sys.argv[1:])


def _forget_current_folder() -> None:
    """Import nothing from the folder that lmtui is started in: it is the workspace (`python -m` puts it first)."""
    home = Path(__file__).resolve().parents[1]
    here = Path.cwd()
    if here != home:
        sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]


if __name__ == "__main__":
    sys.exit(main())
