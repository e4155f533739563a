"""`lmtui ideate`: a session in which the model asks about a topic, then writes SPEC.md."""

from __future__ import annotations

from lmtui.command_line import Parser, add_task_options, make_parser
from lmtui.features.pipeline.spec import ideate_task


def ideate_parser() -> Parser:
    """Return the parser of `lmtui ideate`."""
    text = "Turn a topic into SPEC.md: the model asks you questions, then writes numbered acceptance criteria.\n"
    text += "Without a terminal nobody can answer: what is open is marked BLOCKING in SPEC.md."
    parser = make_parser("ideate", text, 'lmtui ideate "a calculator for the terminal"')
    parser.add_argument("task", metavar="TOPIC", help="what to specify; - reads it from standard input")
    add_task_options(parser)
    parser.set_defaults(allow=["Write(SPEC.md)"])  # it is all that the command is for
    return parser


ideate = ideate_task
