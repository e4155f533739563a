"""What is known of a model on a server: how it calls tools best, how fast it is.  Learned, measured, or set by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lmtui.core.messages import CallForm

LEARNED, BY_HAND = "learned", "hand"


@dataclass(frozen=True, slots=True)
class ModelKey:
    """What a profile belongs to.  `quantisation` and `template` (a digest of the chat template) are empty where not told."""

    url: str
    model: str
    quantisation: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """What is known of a model; zeros, empty texts and None are unknown.

    `edit_form` is `exact` (text replaced by text) or `whole` (files written anew).  `token_ratio` is tokens as the server
    counts them ÷ tokens as we do.  `window_tokens` is what a probe or an overflow showed.  `source` is `learned`, `exam` or
    `hand`; `note` says in words why the call form is what it is.
    """

    call_form: CallForm | None = None
    edit_form: str = ""
    thinks: bool | None = None
    window_tokens: int = 0
    read_tokens_per_s: float = 0.0
    write_tokens_per_s: float = 0.0
    token_ratio: float = 0.0
    source: str = LEARNED
    note: str = ""


class Profiles(Protocol):
    """Where profiles are kept, at user level."""

    def get(self, key: ModelKey) -> ModelProfile:
        """Return what is known of a model; an empty profile where nothing is."""

    def put(self, key: ModelKey, profile: ModelProfile) -> None:
        """Keep a profile; where it cannot be written it holds for this process."""
