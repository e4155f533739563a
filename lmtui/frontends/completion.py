"""Shell completion, made from the parsers: what a command takes is completed without a list of its own."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping

SHELLS = ("bash", "zsh", "fish")
_FOLDERS = ("DIR",)
_FILES = ("FILE", "PATH")

_BASH = """# completion of lmtui: put `eval "$(lmtui completion {shell})"` into {rc}
{setup}_lmtui() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="" words="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in {commands}) command="$word"; break ;; esac
  done
  case "$command:$before" in
{values}
  esac
  case "$command" in
{options}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _lmtui lmtui
"""
_COMPLETE = 'COMPREPLY=($(compgen {kind} -- "$current")); return'
_RC = {"bash": "~/.bashrc", "zsh": "~/.zshrc"}
_SETUP = {"bash": "", "zsh": "autoload -U +X bashcompinit && bashcompinit\n"}

Parsers = Mapping[str, argparse.ArgumentParser]


def script(shell: str, parsers: Parsers) -> str:
    """Return the completion script of a shell; `parsers` are those of the commands by name, that of none by the empty one."""
    return "\n".join(_fish(parsers)) + "\n" if shell == "fish" else _bash(shell, parsers)


def _bash(shell: str, parsers: Parsers) -> str:
    values, options = [], []
    names = [name for name in parsers if name]
    for name, parser in parsers.items():
        words = [option for action in _shown(parser) for option in action.option_strings if option.startswith("--")]
        words += [choice for action in _shown(parser) if not action.option_strings for choice in action.choices or ()]
        options.append(f"    {shlex.quote(name)}) words={shlex.quote(' '.join([*words, *([] if name else names)]))} ;;")
        for action in _shown(parser):
            if kind := _kind(action):
                patterns = "|".join(shlex.quote(f"{name}:{option}") for option in action.option_strings)
                values.append(f"    {patterns}) {_COMPLETE.format(kind=kind)} ;;")
    return _BASH.format(
        shell=shell,
        rc=_RC[shell],
        setup=_SETUP[shell],
        commands="|".join(names),
        values="\n".join(values),
        options="\n".join(options),
    )


def _fish(parsers: Parsers) -> Iterator[str]:
    names = [name for name in parsers if name]
    yield "# completion of lmtui: lmtui completion fish > ~/.config/fish/completions/lmtui.fish"
    for name, parser in parsers.items():
        seen = f"__fish_seen_subcommand_from {name}" if name else f"not __fish_seen_subcommand_from {' '.join(names)}"
        about = f"complete -c lmtui -n {shlex.quote(seen)}"
        if name:
            doc = shlex.quote(str(parser.description or ""))
            yield f"complete -c lmtui -n __fish_use_subcommand -a {name} -d {doc}"
        for action in _shown(parser):
            choices = f" -x -a {shlex.quote(' '.join(action.choices))}" if action.choices else ""
            takes = choices or (" -r" if action.nargs != 0 else "")
            longs = "".join(f" -l {option[2:]}" for option in action.option_strings if option.startswith("--"))
            doc = f" -d {shlex.quote(action.help or '')}"
            if longs:
                yield f"{about}{longs}{takes}{doc}"
            elif action.choices:
                yield f"{about}{choices.replace(' -x', ' -f')}"


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


def _kind(action: argparse.Action) -> str:
    """Return how bash completes an option's value, empty where it cannot."""
    if not action.option_strings or action.nargs == 0:
        return ""
    if action.choices:
        return f"-W {shlex.quote(' '.join(map(str, action.choices)))}"
    return "-d" if action.metavar in _FOLDERS else "-f" if action.metavar in _FILES else ""
