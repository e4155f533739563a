from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.config import SETTINGS, Config, Loaded, convert, load_config, setting_flags, shown
from lmtui.core.errors import ConfigError
from lmtui.paths import config_dir, without_keys

KEY = "sk-canary-123"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "config").mkdir(parents=True)
    return tmp_path / "home" / "config" / "config.toml"


@pytest.fixture
def workspace(tmp_path: Path, home: Path) -> Path:
    (tmp_path / "work" / ".lmagent").mkdir(parents=True)
    return tmp_path / "work"


def load(workspace: Path, environ: Mapping[str, str] | None = None, **flags: Any) -> Loaded:
    return load_config(workspace, environ or {}, flags)


def write_workspace(workspace: Path, text: str) -> None:
    (workspace / ".lmagent" / "config.toml").write_text(text)


def test_each_source_overrules_the_one_before_and_is_named(home: Path, workspace: Path) -> None:
    assert load(workspace).sources["temperature"] == "default"
    home.write_text("temperature = 0.1")
    assert load(workspace).sources["temperature"] == str(home)
    write_workspace(workspace, "temperature = 0.2")
    assert load(workspace).config.temperature == 0.2
    assert load(workspace).sources["temperature"] == ".lmagent/config.toml"
    (workspace / ".env").write_text("LLM_TEMPERATURE=0.3")
    assert load(workspace).config.temperature == 0.3
    assert load(workspace).sources["temperature"] == ".env"
    environ = {"LLM_TEMPERATURE": "0.4"}
    assert load(workspace, environ).config.temperature == 0.4
    assert load(workspace, environ).sources["temperature"] == "environment"
    loaded = load(workspace, environ, temperature=0.5, model=None)
    assert (loaded.config.temperature, loaded.sources["temperature"]) == (0.5, "flag")
    assert loaded.sources["model"] == "default"


def test_an_empty_variable_sets_nothing_and_our_own_name_wins(workspace: Path) -> None:
    environ = {"LLM_URL": " ", "OPENAI_BASE_URL": "http://other/v1", "LLM_API_KEY": "ours", "OPENAI_API_KEY": "theirs"}
    config = load(workspace, environ | {"AGENT_MAX_TOKENS": "4096", "ENABLE_SUB_AGENTS": "false"}).config
    assert (config.url, config.api_key, config.max_tokens, config.sub_agents) == ("http://other/v1", "ours", 4096, "off")


def test_rules_of_all_sources_hold_together_and_all_are_named(home: Path, workspace: Path) -> None:
    home.write_text('deny = ["Write(a)"]\nallow = ["Read"]')
    write_workspace(workspace, 'deny = ["Write(b)"]')
    loaded = load(workspace, deny=("Write(c)",))
    assert loaded.config.deny == ("Write(a)", "Write(b)", "Write(c)")
    assert loaded.config.allow == ("Read",)
    for source in (str(home), ".lmagent/config.toml", "flag"):
        assert source in loaded.sources["deny"]


@pytest.mark.parametrize("line", [
    'url = "http://evil.example"', 'api_key = "x"', 'model = "x"', 'allow = ["Shell"]',
    'network = "on"', "network = true", 'sandbox = "process"', 'image = "evil:1"',
    'workspace = "/etc"', 'mode = "auto"', 'mode = "normal"', "max_iterations = 501",
    "timeout_s = 9.0", 'otel_endpoint = "http://evil"', 'web_search = "command: ./x"',
    'check_profiles = ["a: rm -rf x"]', 'gate = "off"', 'roles = ["coder: x"]',
])  # fmt: skip
def test_an_untrusted_folder_cannot_loosen(workspace: Path, line: str) -> None:
    write_workspace(workspace, line)
    loaded = load(workspace)
    assert loaded.config == Config()
    name = line.partition(" ")[0]
    assert loaded.ignored == (f"{name} in .lmagent/config.toml",)
    assert [item.text.partition(" ")[0] for item in loaded.waiting] == [name]


@pytest.mark.parametrize(("line", "name", "value"), [
    ('mode = "plan"', "mode", "plan"), ('mode = "manual"', "mode", "manual"),
    ("max_iterations = 5", "max_iterations", 5), ('deny = ["Shell"]', "deny", ("Shell",)),
    ('theme = "paper"', "theme", "paper"), ("seed = 7", "seed", 7),
    ('sub_agents = "off"', "sub_agents", "off"),
])  # fmt: skip
def test_an_untrusted_folder_may_tighten(workspace: Path, line: str, name: str, value: object) -> None:
    write_workspace(workspace, line)
    loaded = load(workspace)
    assert (getattr(loaded.config, name), loaded.ignored) == (value, ())


def test_a_folder_is_measured_against_what_the_user_set(home: Path, workspace: Path) -> None:
    home.write_text('mode = "plan"\nnetwork = "on"\nmax_iterations = 10')
    write_workspace(workspace, 'mode = "manual"\nnetwork = "off"\nmax_iterations = 11')
    loaded = load(workspace)
    assert (loaded.config.mode, loaded.config.network, loaded.config.max_iterations) == ("plan", "off", 10)
    assert set(loaded.ignored) == {"mode in .lmagent/config.toml", "max_iterations in .lmagent/config.toml"}


def test_a_limit_of_the_folder_holds_against_its_own_env_file(workspace: Path) -> None:
    write_workspace(workspace, 'mode = "plan"')
    (workspace / ".env").write_text("PERMISSION_MODE=normal\n")
    loaded = load(workspace)
    assert (loaded.config.mode, loaded.ignored) == ("plan", ("mode in .env",))
    assert load(workspace, {"PERMISSION_MODE": "normal"}).config.mode == "normal"


def test_an_env_file_is_read_as_people_write_it(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = (
        "\ufeffLLM_SEED=3\r\n# LLM_TEMPERATURE=2\nexport LMTUI_THEME = 'pa per#1' # ours\n"
        'LLM_TEMPERATURE=0.1   # cool\nMAX_ITERATIONS="40"\n= nonsense\nLLM_MAX_TOKENS\n'
    )
    (workspace / ".env").write_text(text, encoding="utf-8")
    config = load(workspace).config
    assert (config.seed, config.theme, config.temperature, config.max_iterations) == (3, "pa per#1", 0.1, 40)
    assert caplog.text == ""


@pytest.mark.parametrize("make", ["missing", "folder", "huge", "bytes"])
def test_an_env_file_that_is_none_is_passed_over(workspace: Path, make: str) -> None:
    path = workspace / ".env"
    if make == "folder":
        path.mkdir()
    elif make == "huge":
        path.write_bytes(b"LLM_SEED=3\n" + b"#" * 70_000)
    elif make == "bytes":
        path.write_bytes(bytes(range(256)))
    assert load(workspace).config == Config()


@pytest.mark.parametrize(("line", "words"), [
    ("temperature = nan", "a number"), ("temperature = true", "a number"), ("max_iterations = 2.5", "a whole number"),
    ("model = 3", "a text"), ('allow = "Shell"', "a list of texts"), ("deny = [1]", "a list of texts"),
    ('mode = ["auto"]', "manual, normal, auto, try, plan"), ('sandbox = "vm"', "docker"), ("vision = 1", "auto, true, false"),
])  # fmt: skip
def test_a_value_that_cannot_be_names_the_setting_the_source_and_the_kind(
    home: Path, workspace: Path, line: str, words: str
) -> None:
    home.write_text(line)
    with pytest.raises(ConfigError) as caught:
        load(workspace)
    assert str(caught.value).startswith(line.split(maxsplit=1)[0])
    assert str(home) in str(caught.value)
    assert words in caught.value.hint


def test_what_another_program_keeps_in_dotenv_stops_nothing(workspace: Path) -> None:
    (workspace / ".env").write_text("TEMPERATURE=21C\nMAX_ITERATIONS=0\n")
    loaded = load(workspace)
    assert loaded.config == Config()
    assert loaded.ignored == ("TEMPERATURE in .env", "MAX_ITERATIONS in .env")


def test_a_number_out_of_its_range_is_refused_from_every_source(home: Path, workspace: Path) -> None:
    for line in ("temperature = 99", "max_iterations = 0", "max_retries = -1"):
        home.write_text(line)
        with pytest.raises(ConfigError, match="cannot be"):
            load(workspace)
    home.unlink()
    with pytest.raises(ConfigError, match=r"temperature cannot be nan .*flag"):
        load(workspace, temperature=float("nan"))


@pytest.mark.parametrize("key", ["schlüssel", "a\nb", "a\x00"])
def test_a_key_that_fits_no_header_is_refused_and_not_shown(workspace: Path, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(workspace, api_key=key)
    assert key not in caught.value.full_text()
    assert load(workspace, api_key="right\n").config.api_key == "right"


def test_a_settings_file_that_cannot_be_read_is_named(home: Path, workspace: Path) -> None:
    for data in (b"a = ", b"a = " + b"[" * 5000, b"\x00", b"\xff\xfe"):
        home.write_bytes(data)
        with pytest.raises(ConfigError, match=r"config\.toml"):
            load(workspace)
    home.unlink()
    home.mkdir()
    with pytest.raises(ConfigError, match=r"config\.toml cannot be read"):
        load(workspace)


@pytest.mark.parametrize("line", [f'api_key = ["{KEY}"]', f"api_key = {{ value = '{KEY}' }}"])
def test_a_key_of_the_wrong_kind_is_not_in_the_message(home: Path, workspace: Path, line: str) -> None:
    home.write_text(line)
    with pytest.raises(ConfigError) as caught:
        load(workspace)
    assert "api_key" in str(caught.value)
    assert KEY not in caught.value.full_text()


def test_a_key_is_shown_as_dots_of_one_length_and_where_it_is_kept_as_it_is() -> None:
    assert shown("api_key", KEY) == shown("api_key", "x" * 90) == "••••••••"
    assert shown("api_key", "") != shown("api_key", KEY)
    for place in ("file:~/.ssh/id_rsa", "keyring:work"):  # so that nobody trusts it unseen
        assert shown("api_key", place) == place


@given(
    st.sampled_from(sorted(SETTINGS)),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text() | st.integers()) | st.just({}),
)
def test_any_value_is_taken_in_its_own_type_or_refused(name: str, value: object) -> None:
    try:
        taken = convert(name, value, "test")
    except ConfigError:
        return
    config = dataclasses.replace(Config(), **{name: taken})
    assert type(getattr(config, name)) is type(SETTINGS[name].default)


def test_a_trusted_folder_sets_what_an_untrusted_one_may_not_until_it_changes(tmp_path: Path) -> None:
    (tmp_path / ".lmagent").mkdir()
    path = tmp_path / ".lmagent" / "config.toml"
    path.write_text('mode = "auto"\nurl = "http://evil:1"\nallow = ["Shell(make *)"]\n')
    untrusted = load_config(tmp_path, {}, {})
    assert untrusted.config == Config()
    assert [(item.kind, item.text) for item in untrusted.waiting] == [
        ("setting", "mode = auto"), ("setting", "url = http://evil:1"),
        ("permission rule", "allow = Shell(make *)"),
    ]  # fmt: skip
    trusted = load_config(tmp_path, {}, {}, trusted=untrusted.digest)
    assert (trusted.config.mode, trusted.config.url, trusted.config.allow) == ("auto", "http://evil:1", ("Shell(make *)",))
    assert trusted.ignored == ()
    path.write_text(f'{path.read_text()}network = "on"\n')
    changed = load_config(tmp_path, {}, {}, trusted=untrusted.digest)
    assert (changed.config, changed.digest == untrusted.digest) == (Config(), False)


def test_a_key_that_waits_is_not_shown_and_yet_counts(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("LLM_API_KEY=one-key\n")
    one = load_config(tmp_path, {}, {})
    assert "one-key" not in one.waiting[0].text
    (tmp_path / ".env").write_text("LLM_API_KEY=two-key\n")
    assert load_config(tmp_path, {}, {}).digest != one.digest


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "large", "pipe", "other.toml", "missing", "behind a link"])
def test_a_folder_cannot_make_lmtui_read_without_end_or_elsewhere(workspace: Path, target: str) -> None:
    path = workspace / ".lmagent" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    (path.parent / "other.toml").write_text('mode = "plan"')
    if target == "pipe":
        os.mkfifo(path)
    elif target == "behind a link":
        path.with_name("other.toml").rename(path)
        path.parent.rename(workspace / "elsewhere")
        path.parent.symlink_to(workspace / "elsewhere")
    elif target == "large":
        path.write_text("# \n" * 500_000)
    else:
        path.symlink_to(target)
    with pytest.raises(ConfigError, match=r"link|not a regular file|too large"):
        load_config(workspace, {}, {})


def test_a_folder_with_an_inbox_is_asked_about_and_its_tasks_run_only_once_it_is_trusted(workspace: Path) -> None:
    assert load(workspace).config.inbox == "off"
    (workspace / ".lmagent" / "inbox").mkdir(parents=True)
    loaded = load(workspace)
    assert (loaded.config.inbox, [item.source for item in loaded.waiting]) == ("off", [".lmagent/inbox"])
    assert load_config(workspace, {}, {}, trusted=loaded.digest).config.inbox == "on"


def test_a_server_address_is_kept_as_it_was_written_or_an_error_of_the_settings() -> None:
    for url in ("", "localhost:8080", "https://models.example.org/v1"):
        assert convert("url", url, "--url") == url
    for url in ("full make", "ftp://host", "http://", "http://host:99999"):
        with pytest.raises(ConfigError, match=r"not a server address: .* \(url, --url\)") as caught:
            convert("url", url, "--url")
        assert "http://127.0.0.1:1234" in caught.value.hint


GPU = "gpu: url=http://gpu:8080 model=qwen api_key=file:~/.gpu.key"
BARE = "bare: url=http://bare:8080"
BIG = "big: model=big"


def profiled(home: Path, workspace: Path, text: str, environ: Mapping[str, str] | None = None, **flags: Any) -> tuple[str, ...]:
    """Return the server, model and key in force where the user's file has three profiles and a text of its own."""
    home.write_text(f"profiles = {json.dumps([GPU, BARE, BIG])}\n{text}")
    config = load(workspace, environ, **flags).config
    return config.url, config.model, config.api_key


@pytest.mark.parametrize(("text", "environ", "flags", "found"), [
    ("", {}, {}, ("", "", "")),
    ("", {"LLM_PROFILE": "gpu"}, {}, ("http://gpu:8080", "qwen", "file:~/.gpu.key")),
    ('profile = "gpu"', {}, {}, ("http://gpu:8080", "qwen", "file:~/.gpu.key")),
    ('profile = "gpu"', {"LLM_PROFILE": "bare"}, {}, ("http://bare:8080", "", "")),
    ("", {"LLM_PROFILE": "gpu"}, {"profile": "bare"}, ("http://bare:8080", "", "")),
    ('url = "http://a"\nmodel = "m"\napi_key = "sk"', {"LLM_PROFILE": "bare"}, {}, ("http://bare:8080", "", "")),
    ('url = "http://a"\nmodel = "m"\napi_key = "sk"', {"LLM_PROFILE": "big"}, {}, ("http://a", "big", "sk")),
    ("", {"LLM_PROFILE": "gpu", "LLM_API_KEY": "sk"}, {}, ("http://gpu:8080", "qwen", "file:~/.gpu.key")),
    ("", {"LLM_PROFILE": "gpu"}, {"model": "mine"}, ("http://gpu:8080", "mine", "file:~/.gpu.key")),
    ("", {"LLM_PROFILE": "gpu", "LLM_API_KEY": "sk"}, {"url": "http://b"}, ("http://b", "", "sk")),
    ("", {}, {"profile": "gpu", "url": "http://b"}, ("http://b", "", "")),
    ("", {}, {"profile": "gpu", "api_key": "sk"}, ("http://gpu:8080", "qwen", "sk")),
    ('profile = "gpu"', {"LLM_URL": "http://b"}, {}, ("http://b", "", "")),
])  # fmt: skip
def test_a_profile_takes_the_place_of_what_was_said_before_it(
    home: Path, workspace: Path, text: str, environ: dict[str, str], flags: dict[str, str], found: tuple[str, ...]
) -> None:
    assert profiled(home, workspace, text, environ, **flags) == found


def test_an_untrusted_workspace_sets_and_chooses_no_profile(home: Path, workspace: Path) -> None:
    profiled(home, workspace, "")
    write_workspace(workspace, f'profiles = {json.dumps(["gpu: url=http://evil"])}\nprofile = "gpu"')
    (workspace / ".env").write_text("LLM_PROFILE=gpu")
    loaded = load(workspace)
    assert loaded.config.url == ""
    assert {each.partition(" ")[0] for each in loaded.ignored} == {"profiles", "profile"}
    assert load(workspace, {"LLM_PROFILE": "gpu"}).config.url == "http://gpu:8080"


@pytest.mark.parametrize(("text", "flags", "key"), [
    ('url = "http://a"', {}, ""), ('servers = ["http://a"]', {}, ""),
    ('profiles = ["a: url=http://a"]\nprofile = "a"', {"api_key": "sk"}, ""),
    ('url = "http://a"', {"url": "http://b"}, "sk"), ('url = "http://a"\napi_key = "own"', {}, ""),
    ("seed = 7", {}, "sk"),
])  # fmt: skip
def test_a_server_that_a_trusted_folder_names_does_not_get_the_users_key(
    workspace: Path, text: str, flags: dict[str, str], key: str
) -> None:
    path = workspace / ".lmagent" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    digest = load_config(workspace, {}, {}).digest
    assert load_config(workspace, {"LLM_API_KEY": "sk"}, flags, trusted=digest).config.api_key == key


def test_a_setting_of_an_earlier_version_is_named_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))
    config_dir().mkdir(parents=True)
    (config_dir() / "config.toml").write_text('language_servers = "off"\nmemory_recall = "off"\ntheme = "dusk"\n')
    loaded = load_config(tmp_path, {"SCHEDULER_POLL_INTERVAL": "often"}, {})
    said = "memory_recall in config.toml is no longer used; CHANGELOG.md says what replaces it"
    assert (loaded.retired[1], len(loaded.retired), loaded.config.theme) == (said, 2, "dusk")
    with pytest.raises(ConfigError, match="titles is no longer used"):
        setting_flags(["titles=on"])


def test_programs_on_this_machine_get_the_users_environment_without_our_keys() -> None:
    environ = {"PATH": "/bin", "MY_KEY": "x", "LLM_API_KEY": "ours", "OPENAI_API_KEY": "theirs", "LM_API_TOKEN": "y"}
    assert without_keys(environ) == {"PATH": "/bin", "MY_KEY": "x"}
    secret = {name for each in SETTINGS.values() if each.metadata["is_secret"] for name in each.metadata["env"]}
    assert without_keys(dict.fromkeys(secret, "x")) == {}
