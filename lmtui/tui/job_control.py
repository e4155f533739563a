"""Whether something is there that can wake this process again once it is put to sleep."""

from __future__ import annotations

import os

import psutil


def has_job_control() -> bool:
    """Tell whether a shell of this terminal started us as a job: without one nobody could bring us back.

    As POSIX has it: a process group is orphaned where no parent of its members is in another group of the same session.
    """
    own_group, session = os.getpgrp(), os.getsid(0)
    try:
        parent = psutil.Process().parent()
        while parent is not None and os.getpgid(parent.pid) == own_group:
            parent = parent.parent()
        return parent is not None and os.getsid(parent.pid) == session
    except (OSError, psutil.Error):
        return False
