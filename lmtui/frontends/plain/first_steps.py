"""What the linear mode asks before a session opens: which model, and whether the folder's own settings hold."""

from __future__ import annotations

from lmtui.core.clean import clean_line, reveal_line
from lmtui.core.errors import LmtuiError
from lmtui.core.look_alikes import warning
from lmtui.frontends.mcp_reach import KEY, choose_reach, offer
from lmtui.frontends.plain.desk import Desk

YES = ("y", "yes")


def ask_for_server(desk: Desk, silent: str = "") -> None:
    """Let the user choose a model: a running one, an address, the demo, or `silent` (the stored server, if it does not answer).

    Raises:
        EOFError: the user leaves.
    """
    note = f"no answer from {clean_line(silent)}, the server that you chose last" if silent else desk.host.setup_note
    desk.say(note, "looking for model servers on the usual ports")
    found = [(server, model.name) for server in desk.room.wait(desk.host.servers.find()) for model in server.chat_models]
    for number, (server, name) in enumerate(found, 1):
        desk.say(f"{number}. {clean_line(name)}, {clean_line(server.kind)} at {clean_line(server.url)}")
    if not found:
        desk.say("no model server answers here")
    while True:
        keep = ", or enter to keep that server" if silent else ""
        typed = desk.terminal.read(f"a number, an address such as http://127.0.0.1:8080, or demo{keep}: ").strip()
        if silent and not typed:
            return None
        try:
            if typed.isdecimal() and 0 < int(typed) <= len(found):
                server, name = found[int(typed) - 1]
                return desk.room.wait(desk.host.servers.use(server.url, name))
            if typed == "demo":
                return desk.room.wait(desk.host.start_demo())
            if "." in typed or ":" in typed:
                return desk.room.wait(desk.host.servers.use(typed, ""))
        except LmtuiError as error:
            desk.say(f"error: {error.full_text()}")


def ask_for_trust(desk: Desk) -> None:
    """Ask whether what the folder brings holds; an empty answer leaves it open."""
    waiting = desk.host.trust.waiting()
    if not waiting:
        return
    desk.say("this folder brings settings of its own; they do not hold until you trust them:")
    for item in waiting:
        desk.say(f"  {clean_line(item.kind)} in {reveal_line(item.source)}: {reveal_line(item.text)}")
        if found := warning((item.text,)):
            desk.say(f"  {found}")
    desk.terminal.drop_typed()
    typed = desk.terminal.read(f"trust all of these, yes or no{offer(waiting)}? ").strip().lower()
    if typed == KEY and offer(waiting):
        servers = desk.host.extensions.mcp
        choose_reach(
            waiting,
            lambda name, reach: desk.room.do(lambda: servers.choose_reach(name, reach)),
            desk.terminal.read,
            desk.say,
        )
        ask_for_trust(desk)
        return
    try:
        if typed:
            desk.host.trust.answer(waiting, is_trusted=typed in YES)
    except LmtuiError as error:
        desk.say(f"error: {error.full_text()}", "they do not hold")
    else:
        desk.say("they hold from the next session on" if typed in YES else "they do not hold")
