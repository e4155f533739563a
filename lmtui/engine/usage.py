"""What a request cost, told once its answer is there."""

from __future__ import annotations

from lmtui.core.events import UsageUpdated
from lmtui.core.messages import Completion, Usage
from lmtui.engine.desk import Desk


def show_usage(desk: Desk, completion: Completion, turn_id: str) -> None:
    """Tell what the request that brought this answer cost; called once its message is part of the conversation."""
    usage = completion.usage
    is_estimate = usage is None or usage.prompt_tokens == 0
    if usage is None or is_estimate:
        usage = Usage(desk.conversation.size_tokens(), len(completion.message.text) // 4)
    has_rate = completion.decode_s > 0 and usage.completion_tokens > 1
    desk.emit(
        UsageUpdated(
            agent=desk.agent,
            usage=usage,
            window_tokens=desk.window_tokens,
            tokens_per_s=round((usage.completion_tokens - 1) / completion.decode_s, 1) if has_rate else 0.0,
            first_token_s=round(completion.first_token_s, 3),
            is_estimate=is_estimate,
            turn_id=turn_id,
        )
    )
