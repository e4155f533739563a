"""The edit tool: one place of a file changed, the rest byte for byte what it was."""

from __future__ import annotations

import asyncio

from lmtui.core.errors import ToolError
from lmtui.core.permissions import Access, Verdict
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.core.workspace import FileContent
from lmtui.tools.edit import Edited, apply_edit
from lmtui.tools.files import counts, read_text, write_accepted
from lmtui.tools.text import TextFile, describe_change, hunk_count
from lmtui.tools.tool import Arguments, Tool, WorkspacePath, always, argument, path_argument


class EditArguments(Arguments):
    """What to change."""

    path: WorkspacePath = path_argument()
    search: str = argument(
        also=("old", "old_string", "oldString", "old_str", "old_text", "find"), doc="text as it is in the file, found once"
    )
    replace: str = argument(also=("new", "new_string", "newString", "new_str", "new_text", "replacement"))
    all: bool = argument(False, also=("replace_all", "replaceAll"), doc="change every place")  # noqa: FBT003  (a default)


async def _edited(arguments: EditArguments, context: ToolContext) -> tuple[FileContent, TextFile, Edited]:
    content, file = await read_text(context, arguments.path)
    try:
        edited = await asyncio.to_thread(
            apply_edit, file.text, arguments.search, arguments.replace, is_all=arguments.all, newline=file.newline
        )
    except ToolError as error:
        if context.on_reading(arguments.path) is Verdict.ALLOW:
            raise
        text = "the text is not there just once; nothing was changed"  # more would be a way to read the file
        raise ToolError(text, "Read the file first.") from error
    return content, file, edited


async def _edit(arguments: EditArguments, context: ToolContext) -> ToolResult:
    content, file, edited = await _edited(arguments, context)
    if context.seen.get(arguments.path, content.sha256) != content.sha256:
        raise ToolError(f"{arguments.path} has changed since the edit was approved; nothing was changed. Read it again.")
    if context.hunks is not None:
        return await write_accepted(context, arguments.path, content, file, edited.text)
    await context.sandbox.write_file(arguments.path, file.encode(edited.text), expect_sha256=content.sha256)
    change = await asyncio.to_thread(describe_change, arguments.path, file.text, edited.text)
    places = f"{edited.count} places" if edited.count > 1 else ""
    remark = ", ".join(part for part in (places, edited.remark and f"found {edited.remark}") if part)
    return ToolResult(f"ok ({remark})" if remark else "ok", counts(change), changes=(change,))


async def _preview(arguments: EditArguments, context: ToolContext) -> Preview:
    content, file, edited = await _edited(arguments, context)
    context.seen[arguments.path] = content.sha256
    change = await asyncio.to_thread(describe_change, arguments.path, file.text, edited.text, is_whole=True)
    hunks = await asyncio.to_thread(hunk_count, file.text, edited.text)
    return Preview(f"edit {arguments.path}  {counts(change)}\n\n{change.diff}", change.diff, arguments.path, hunks=hunks)


EDIT = Tool(
    name="edit",
    description="Replace text in a file.",
    arguments=EditArguments,
    run=_edit,
    access=always(Access.WRITE),
    subject=lambda arguments: arguments.path,
    title=lambda arguments: arguments.path,
    preview=_preview,
    aliases=("edit_file", "str_replace", "search_replace", "file_patch", "replace_in_file"),
)
