"""Prompts and resources as a server lists them, made fit for names, lists and lines: hostile until they have passed here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lmtui.core.clean import clean_path
from lmtui.core.errors import McpError
from lmtui.core.mcp import McpPrompt, McpResource
from lmtui.core.prompt_files import split_arguments
from lmtui.extensions.mcp_names import harmless, server_key, told_name

MAX_PROMPTS = 200
MAX_RESOURCES = 1000
MAX_URI_CHARS = 2000
_MAX_ARGUMENTS = 20
_MAX_ARGUMENT_CHARS = 64
_MAX_WORDS_CHARS = 120
_MAX_LISTED = 200
_PLAIN_URI = re.compile(rf'[^\s"]{{1,{MAX_URI_CHARS}}}')
_ARGUMENT = re.compile(rf"[^\s=<>\[\]]{{1,{_MAX_ARGUMENT_CHARS}}}")


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A prompt as its server lists it: `arguments` by name, each with whether it is required."""

    name: str
    description: str = ""
    arguments: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class RawResource:
    """A resource as its server lists it, or a template of several."""

    uri: str
    title: str = ""
    is_template: bool = False


@dataclass(frozen=True, slots=True)
class Offers:
    """What a server lists beside its tools; `has_resources`: it answers for resources, listed or not."""

    prompts: tuple[RawPrompt, ...] = ()
    resources: tuple[RawResource, ...] = ()
    has_resources: bool = False


def told_prompts(server: str, prompts: Iterable[RawPrompt]) -> tuple[McpPrompt, ...]:
    """Return a server's prompts under names that can be typed; one that wants what cannot be typed is left out."""
    found: list[McpPrompt] = []
    taken: set[str] = set()
    for prompt in sorted(prompts, key=lambda prompt: prompt.name)[:MAX_PROMPTS]:
        fits = [_can_be_told(name, _ARGUMENT) for name, _ in prompt.arguments[:_MAX_ARGUMENTS]]
        arguments = tuple(each for each, fit in zip(prompt.arguments, fits, strict=False) if fit)
        if sum(is_required for _, is_required in arguments) < sum(is_required for _, is_required in prompt.arguments):
            continue
        name = told_name(server, prompt.name, taken)
        taken.add(name)
        found.append(
            McpPrompt(name, server, server_key(server), prompt.name, harmless(prompt.description, _MAX_WORDS_CHARS), arguments)
        )
    return tuple(found)


def told_resources(server: str, resources: Sequence[RawResource]) -> tuple[McpResource, ...]:
    """Return a server's resources; one whose address hides something or cannot be typed is left out."""
    return tuple(
        McpResource(server_key(server), each.uri, harmless(each.title, _MAX_WORDS_CHARS), each.is_template)
        for each in resources[:MAX_RESOURCES]
        if _can_be_told(each.uri, _PLAIN_URI)
    )


def listing(resources: Sequence[McpResource]) -> str:
    """Return resources as the model reads them."""
    lines = [f"{each.uri}{'  (a template)' if each.is_template else ''}  {each.title}".rstrip() for each in resources]
    rest = [f"(and {len(lines) - _MAX_LISTED} more)"] if len(lines) > _MAX_LISTED else []
    return "\n".join([*lines[:_MAX_LISTED], *rest]) or "(the server lists no resources)"


def argument_hint(prompt: McpPrompt) -> str:
    """Return how a prompt's arguments are typed: `<required> [optional]`."""
    return " ".join(f"<{name}>" if is_required else f"[{name}]" for name, is_required in prompt.arguments)


def typed_arguments(prompt: McpPrompt, words: str) -> Mapping[str, str]:
    """Return the arguments that were typed, by position or as `name=value`; more words than places join the last one.

    Raises:
        McpError: a required one is missing, or the prompt takes none.
    """
    names = [name for name, _ in prompt.arguments]
    usage = f"Type: /{prompt.name} {argument_hint(prompt)}".rstrip()
    found: dict[str, str] = {}
    last = ""
    for word in split_arguments(words):
        name, sign, value = word.partition("=")
        if sign and name in names:
            found[name] = value
            continue
        free = next((each for each in names if each not in found), "")
        if free:
            found[free], last = word, free
        elif last:
            found[last] += f" {word}"
        else:
            raise McpError(f"/{prompt.name} has no place for {clean_path(word)[:40]!r}", usage)
    missing = [name for name, is_required in prompt.arguments if is_required and not found.get(name)]
    if missing:
        raise McpError(f"/{prompt.name} needs {', '.join(missing)}", usage)
    return found


def _can_be_told(text: str, pattern: re.Pattern[str]) -> bool:
    return pattern.fullmatch(text) is not None and clean_path(text) == text
