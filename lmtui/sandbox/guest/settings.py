"""What the outside tells the supervisor at its start: one JSON object as its only argument."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence


class Settings:
    """What this instance may do and which limits its commands get.

    `root` is the workspace's folder in here.  `environment` is the supervisor's own, with the system's programs on PATH;
    commands get `commands_path` instead, which may begin with folders of the workspace.  `is_confined` puts the seccomp filter
    over commands (the instance around them is isolated). `limits_processes` sets RLIMIT_NPROC, which counts right only in a
    user namespace of the instance's own. `is_landlocked`: there are no
    namespaces, the supervisor and its commands confine themselves to `landlock_reads` and `landlock_writes` and, started by
    root, become `owner` and `group`; without `has_network` such commands have no sockets. `store` is the folder of the
    checkpoints in their instance, `proxy` the socket to the internet's proxy where there is one. `is_read_only`: nothing in the
    workspace may be changed; the instance ensures that for commands, and this for everything else. `serves`: the instance is
    for one program that stays. `guards`: it looks after the workspace and runs no program. `scratch`: the folders that are
    emptied once no command runs (they must be the instance's own). `folders` are those outside the workspace that file
    operations may name, `writable` those of them that they may change; the guard looks after all. `git_config` is a file
    with the user's settings of git; `git_dir` and `git_top` are the git folder and the top of its files, where these are
    outside the workspace. `git_problem` says why git cannot be used. `workspace` is the workspace's folder where `root` is one
    in it, in which a program runs. `seccomp_filter` is what the supervisor makes of the rest, empty for none.
    """

    root: str
    environment: dict[str, str]
    commands_path: str = ""
    has_shell: bool = False
    has_git: bool = False
    git_writes: bool = False
    git_config: str = ""
    git_dir: str = ""
    git_top: str = ""
    git_problem: str = ""
    workspace: str = ""
    is_read_only: bool = False
    serves: bool = False
    guards: bool = False
    is_confined: bool = False
    seccomp_filter: bytes = b""
    limits_processes: bool = False
    store: str = ""
    proxy: str = ""
    max_processes: int = 1024
    max_file_mb: int = 4096
    max_kept_file_mb: int = 16
    is_landlocked: bool = False
    landlock_reads: Sequence[str] = ()
    landlock_writes: Sequence[str] = ()
    has_network: bool = True
    owner: int = -1
    group: int = -1
    scratch: Sequence[str] = ()
    folders: Sequence[str] = ()
    writable: Sequence[str] = ()

    def __init__(self, **values: object) -> None:
        if unknown := values.keys() - self.__annotations__.keys():
            raise TypeError(f"unknown settings: {', '.join(sorted(unknown))}")
        vars(self).update(values)

    def with_values(self, **values: object) -> Settings:
        """Return the settings with other values for some."""
        return Settings(**vars(self) | values)

    @property
    def commands_environment(self) -> dict[str, str]:
        """Return what one command gets."""
        return {**self.environment, "PATH": self.commands_path}

    def to_json(self) -> str:
        """Return the settings as the supervisor's argument."""
        return json.dumps(vars(self))


def parse(text: str) -> Settings:
    """Read the supervisor's argument.

    Raises:
        TypeError: a setting that does not exist.
        ValueError: it is not JSON.
    """
    return Settings(**{name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()})


def read_table(name: str) -> list[list[str]]:
    """Return the rows of a table next to this file; lines that begin with # are comments."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.txt"), encoding="utf-8") as file:
        return [line.split() for line in file if line[0] not in "#\n"]
