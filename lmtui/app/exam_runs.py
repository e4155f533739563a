"""The exam of a model put together: found by its name, asked through its server, the result kept as its profile."""

from __future__ import annotations

import asyncio
import difflib
import secrets
from collections.abc import Sequence
from dataclasses import replace

from lmtui.app.connection import ModelConnection
from lmtui.config import Config
from lmtui.core.errors import UsageError
from lmtui.core.hosts import base_url
from lmtui.core.ports import Provider
from lmtui.core.servers import BY_HAND, EXAM, ExamState, ModelKey, ModelProfile, OnStep, Profiles, ServedModel, ServerFound
from lmtui.engine.exam_tasks import ExamParts
from lmtui.engine.model_exam import ModelExam
from lmtui.models.tokens import TokenCounts
from lmtui.store.model_profiles import ProfileStore
from lmtui.tools.registry import ToolRegistry

_TOKENIZER_LIMIT_S = 5.0


class Examiner:
    """Examines models and keeps what is found.

    Args:
        profiles: where it is kept.
        file: the name of that place, in words.
    """

    def __init__(self, profiles: Profiles, file: str = "") -> None:
        self._profiles = profiles
        self._file = file

    def known(self, url: str, model: ServedModel) -> ModelProfile:
        """Return what is known of a model of a server."""
        return self._profiles.get(_key(url, model))

    async def examine(self, provider: Provider, model: str, on_step: OnStep, *, is_quick: bool = False) -> ExamState:
        """Examine a model and return how it went; one that is cancelled keeps what it has and tells `on_step` so."""
        counts = TokenCounts()
        _ = counts("")
        await asyncio.to_thread(counts.wait, _TOKENIZER_LIMIT_S)
        parts = ExamParts(provider, ToolRegistry(), model, secrets.token_hex(4), counts, is_quick=is_quick)
        exam = ModelExam(parts, on_step)
        before: ServedModel | None = None
        try:
            before = await provider.served(model)  # from here on it is asked in the way that its kind of server knows
            await exam.run()
        finally:
            state = replace(exam.state, doing="", is_over=True, kept=self._keep(exam, before))
            on_step(state)
        return state

    def _keep(self, exam: ModelExam, before: ServedModel | None) -> str:
        """Keep what was found, over what was known before; return what was done, in words.

        Some servers tell more of a model once it is loaded, so it is kept for what was told `before` too.
        """
        state = exam.state
        if state.profile == ModelProfile(source=EXAM):
            return "nothing was kept"
        told = {each for each in (before, exam.served) if each is not None} or {ServedModel(state.model)}
        keys = {ModelKey(state.url, state.model or each.name, each.quantisation, each.template) for each in told}
        profiles = {key: _over(self._profiles.get(key), state.profile) for key in keys}
        for key, profile in profiles.items():
            self._profiles.put(key, profile)
        is_by_hand = any(profile.source == BY_HAND for profile in profiles.values())
        by_hand = "; the form of calls stays as you set it" if is_by_hand else ""
        return f"kept in {self._file}{by_hand}" if self._file else f"kept{by_hand}"


def _over(known: ModelProfile, found: ModelProfile) -> ModelProfile:
    """Return what was known with what was found in its place; the form of calls that was set manually stays."""
    empty = ModelProfile()
    news = {name: getattr(found, name) for name in _FOUND if getattr(found, name) != getattr(empty, name)}
    if found.call_form is None:
        return replace(known, **news)
    known = replace(known, **news)
    if known.source == BY_HAND:
        return known
    return replace(known, call_form=found.call_form, note=found.note, source=EXAM)


_FOUND = ("edit_form", "thinks", "window_tokens", "read_tokens_per_s", "write_tokens_per_s", "token_ratio")


def _key(url: str, model: ServedModel) -> ModelKey:
    return ModelKey(base_url(url), model.name, model.quantisation, model.template)


async def examine_named(config: Config, name: str, on_step: OnStep, *, is_quick: bool = False) -> ExamState:
    """Find a model by its name on the servers that answer, and examine it.

    Raises:
        UsageError: no server answers, or none has such a model.
    """
    connection = ModelConnection(config)
    try:
        server, model = which_model(await connection.find(), name, config.url)
        profiles = ProfileStore()
        examiner = Examiner(profiles, str(profiles.file))
        connection.use(server.url, model, connection.key_for(server.url))
        return await examiner.examine(connection.provider(), model, on_step, is_quick=is_quick)
    finally:
        await connection.close()


def which_model(servers: Sequence[ServerFound], name: str, named_url: str = "") -> tuple[ServerFound, str]:
    """Return the server and the whole name of the model that a name means: its own, else the only one that holds it.

    Raises:
        UsageError: none or several are meant; or the server that was named answers otherwise.
    """
    if not servers:
        where = f"at {named_url}" if named_url else "on the usual ports"
        raise UsageError(f"no model server answers {where}", "Start one, or name another with --url.")
    if named_url and servers[0].note and not servers[0].models:
        raise UsageError(f"{servers[0].url}: {servers[0].note}", "Put that right, or name another server with --url.")
    offers = [(server, model.name) for server in servers for model in server.models]
    chats = [(server, model.name) for server in servers for model in server.chat_models]
    exact = [each for each in chats if each[1] == name]
    near = exact or [each for each in chats if name.lower() in each[1].lower()]
    if exact or len(near) == 1:
        return near[0]
    if any(each[1] == name for each in offers):
        raise UsageError(f"{name} embeds only: it cannot chat, so there is nothing to examine")
    if near:
        raise UsageError(f"{name!r} may be {', '.join(each[1] for each in near[:4])}", "Give more of the name.")
    names = [each[1] for each in chats]
    close = difflib.get_close_matches(name, names, n=1) or names[:1]
    raise UsageError(
        f"no server that answers has a model {name!r}", f"`lmtui models` lists them, for example {close[0]}." if close else ""
    )
