"""The user's settings, shown with their sources and changed in the user's own file, the rest of which stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmtui.config import SETTINGS, Config, Loaded, convert, read_settings, shown
from lmtui.core.errors import ConfigError
from lmtui.core.roles import ModelRole, Roles, parse_roles, with_role
from lmtui.core.sessions import SettingRow
from lmtui.paths import config_dir, theme_files
from lmtui.store.state_files import write_whole

_GROUPS = {
    "Model": "url model api_key profiles profile temperature seed top_p repeat_penalty call_form tools roles vision "
    "context_tokens slots max_tokens stall_timeout_s max_retries retry_delay_s append_system_prompt",
    "Limits": "budget timeout_s max_iterations compact_at summaries",
    "Permissions": "mode allow ask deny",
    "Sandbox": "sandbox network web web_search web_search_key add_dirs pass_env command_timeout_s command_memory_mb image",
    "Sub-agents": "sub_agents agent_max_depth keep_agents",
    "Screen": "theme notify",
}


class UserSettings:
    """Implements `core.sessions.SettingsControls`.

    Args:
        loaded: the settings as they were read.
        reload: reads them again.
        use: takes settings that differ in more than what the screen looks like.
    """

    def __init__(self, loaded: Loaded, reload: Callable[[], Loaded], use: Callable[[Config], None]) -> None:
        self.loaded = loaded
        self._reload = reload
        self._use = use

    def rows(self) -> Sequence[SettingRow]:
        return [_row(name, self.loaded) for name in SETTINGS]

    def change(self, name: str, text: str | None) -> SettingRow:
        is_list = isinstance(SETTINGS[name].default, tuple)
        parts = [part.strip() for part in (text or "").split(",") if part.strip()]
        value = None if text is None else convert(name, parts if is_list else text.strip(), "the settings")
        if name == "theme" and value and value not in (known := theme_files()):
            raise ConfigError(f"theme cannot be {value!r} (the settings)", f"It is one of {', '.join(sorted(known))}.")
        return self._write(name, value)

    def roles(self) -> Roles:
        return parse_roles(self.loaded.config.roles)

    def set_role(self, role: ModelRole, model: str) -> None:
        own = read_settings(config_dir() / "config.toml", {}).get("roles", ())
        self._write("roles", convert("roles", with_role(own, role, model), "the settings") or None)

    def _write(self, name: str, value: Any) -> SettingRow:
        file = config_dir() / "config.toml"
        before = file.read_bytes() if file.exists() else None
        write_setting(file, name, value)
        try:
            self.look_again()
        except ConfigError:
            if before is None:
                file.unlink(missing_ok=True)
            else:
                file.write_bytes(before)
            raise
        return _row(name, self.loaded)

    def look_again(self) -> None:
        """Read the settings again, which the user may have changed or trusted meanwhile.

        Raises:
            ConfigError: they cannot be read.
        """
        own, self.loaded = self.loaded.config, self._reload()
        if replace(self.loaded.config, theme=own.theme, notify=own.notify) != own:
            self._use(self.loaded.config)


def write_setting(file: Path, name: str, value: Any) -> None:
    """Put one value into a TOML file, or with None take it out; comments and order stay.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    import tomlkit  # noqa: PLC0415  (start-up: only who changes a setting needs it)

    try:
        file = file.resolve()  # a link to a file kept elsewhere stays one
        document = tomlkit.parse(file.read_text("utf-8")) if file.exists() else tomlkit.document()
        if value is None:
            document.pop(name, None)
        else:
            document[name] = list(value) if isinstance(value, tuple) else value
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600  # a key may be in it
        write_whole(file, tomlkit.dumps(document), errors="strict")
        file.chmod(mode)
    except (OSError, UnicodeError, tomlkit.exceptions.TOMLKitError) as error:
        raise ConfigError(f"{file} cannot be changed: {error}", "Fix it, or edit the file yourself.") from error


def _row(name: str, loaded: Loaded) -> SettingRow:
    metadata, value = SETTINGS[name].metadata, getattr(loaded.config, name)
    is_list, is_secret = isinstance(value, tuple), metadata["is_secret"]
    text = "" if is_secret else ", ".join(value) if is_list else str(value)
    choices = tuple(theme_files()) if name == "theme" else metadata["choices"]
    label = metadata["label"] or name.replace("_", " ").capitalize()
    group = next((group for group, names in _GROUPS.items() if name in names.split()), "General")
    source = loaded.sources[name]
    found = SettingRow(name, shown(name, value), source, metadata["doc"], text, choices, metadata["env"], is_list)
    return replace(found, label=label, group=group, is_secret=is_secret)
