"""Looking at a picture of the workspace: it goes to a model that sees, behind the result of the call."""

from __future__ import annotations

from lmtui.core.errors import ToolError
from lmtui.core.permissions import Access
from lmtui.core.pictures import MAX_IMAGE_BYTES, Image, sniff
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.tools.tool import Arguments, Tool, WorkspacePath, always, path_argument

_FORMATS = "JPEG, PNG, GIF and WebP"


class LookArguments(Arguments):
    """What to look at."""

    path: WorkspacePath = path_argument()


async def _look(arguments: LookArguments, context: ToolContext) -> ToolResult:
    path = arguments.path
    if not context.sees:
        raise ToolError("you see no pictures: the model in use is not made for them", "Tell the user so.")
    content = await context.sandbox.read_file(path, MAX_IMAGE_BYTES)
    media_type = sniff(content.data)
    if not media_type:
        raise ToolError(f"{path} is no picture that can be shown ({_FORMATS} can)", "Use read for text.")
    if content.size_bytes > MAX_IMAGE_BYTES:
        raise ToolError(
            f"{path} has {content.size_bytes:,} bytes; pictures of more than {MAX_IMAGE_BYTES:,} are not sent",
            "Make a smaller copy and look at that.",
        )
    kind = media_type.removeprefix("image/")
    name = path.rpartition("/")[2]
    text = f"The picture {path} ({kind}, {content.size_bytes:,} bytes) is attached."
    return ToolResult(text, f"{kind}, {content.size_bytes:,} bytes", images=(Image(name, media_type, content.data),))


LOOK = Tool(
    name="look",
    description="Look at a picture (JPEG, PNG, GIF, WebP).",
    arguments=LookArguments,
    run=_look,
    access=always(Access.READ),
    subject=lambda arguments: arguments.path,
    title=lambda arguments: arguments.path,
    aliases=("view_image", "read_image", "look_at_image", "vision"),
)
