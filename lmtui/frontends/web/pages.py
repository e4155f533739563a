"""The two pages: the terminal, and the door.  Nothing in them comes from anywhere but this machine."""

from __future__ import annotations

from html import escape

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self' data:; "
    "connect-src 'self' {sockets}; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
FOCUS_SCRIPT = """
const wait = setInterval(() => {
  const area = document.querySelector(".xterm-helper-textarea");
  if (area && document.body.classList.contains("-first-byte")) { clearInterval(wait); area.blur(); area.focus(); }
}, 50);
"""
FONTS = ("/static/fonts/RobotoMono-VariableFont_wght.ttf", "/static/fonts/RobotoMono-Italic-VariableFont_wght.ttf")
_FACES = f"""
@font-face {{ font-family: "Roboto Mono"; src: url("{FONTS[0]}"); }}
@font-face {{ font-family: "Roboto Mono"; font-style: italic; src: url("{FONTS[1]}"); }}
"""
_STYLE = (
    _FACES
    + """
html, body { background: #14181d; color: #d6dae0; font-family: "Roboto Mono", Menlo, monospace; margin: 0; height: 100%; }
.door, .closed p { max-width: 34rem; margin: 1rem auto; padding: 0 1rem; line-height: 1.5; }
.door { padding-top: 20vh; }
.closed { display: none; position: absolute; inset: 0; z-index: 10; background: #14181d; padding-top: 20vh; }
body.-closed .closed { display: block; }
input, button { font: inherit; color: inherit; background: #222931; border: 1px solid #959eab; padding: .4rem .8rem; }
a { color: #74b3f0; }
"""
)


def terminal_page(title: str, socket_url: str, font_size: int) -> str:
    """Return the page with the terminal in it; the script and its marks are textual-serve's."""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<link rel="stylesheet" href="/static/css/xterm.css"><style>{_STYLE}</style>
<script src="/static/js/textual.js"></script><script src="/focus.js" defer></script></head>
<body>
<div class="closed"><p>lmtui has ended here. What was done is saved; the session can be resumed.</p>
<p><a href="/">Open it again</a></p></div>
<div id="terminal" class="textual-terminal"
  data-session-websocket-url="{escape(socket_url)}" data-font-size="{font_size}"></div>
</body></html>
"""


def door_page(*, has_pin: bool, is_locked: bool, was_wrong: bool) -> str:
    """Return the page for who has no key yet."""
    if is_locked:
        words = "Too many wrong keys. Wait a minute."
    elif was_wrong:
        words = "That is not the key."
    else:
        words = "Who may come in?"
    hint = (
        "the PIN that lmtui serve was started with" if has_pin else "the newest link that lmtui serve printed; each works once"
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>lmtui</title><style>{_STYLE}</style></head>
<body><form class="door" method="post" action="/key"><p><b>lmtui</b></p><p>{words}</p><p>It takes {hint}.</p>
<p><input name="key" type="password" autofocus autocomplete="off"> <button>Open</button></p></form></body></html>
"""
