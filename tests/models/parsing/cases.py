"""Messages in every form that models are known to send, each with what a careful reader would run.

The forms are those of the models' chat templates and of the tool parsers of vLLM, SGLang and llama.cpp; the texts are our own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lmtui.core.messages import ToolCallFormat, ToolSpec


def tool(name: str, required: str = "", optional: str = "", *aliases: str, **kinds: str) -> ToolSpec:
    names = [*required.split(), *optional.split()]
    properties = {each: {"type": kinds.get(each, "string")} for each in names}
    schema: dict[str, object] = {"type": "object", "properties": properties, "required": required.split()}
    others: dict[str, tuple[str, ...]] = {"path": ("file_path", "file")} if "path" in names else {}
    return ToolSpec(name, f"{name}s", schema, aliases, others)


TOOLS = (
    tool("ls", "", "path", "list_files"),
    tool("read", "path", "offset limit", "read_file", "cat", offset="integer", limit="integer"),
    tool("write", "path content", "", "write_file"), tool("shell", "command", "timeout", "bash", timeout="number"),
    tool("edit", "path old new", "all", all="boolean"), tool("grep", "pattern", "path"), tool("get_time"),
    tool("todo_add", "items", "", items="array"),
)  # fmt: skip

Call = tuple[str, dict[str, object]]
READ: Call = ("read", {"path": "notes.txt"})
LS: Call = ("ls", {"path": "."})
HELLO: Call = ("write", {"path": "hello.txt", "content": "Hello, world!"})
ECHO: Call = ("shell", {"command": "echo hi"})
J_READ = '{"name": "read", "arguments": {"path": "notes.txt"}}'
J_LS = '{"name": "ls", "arguments": {"path": "."}}'
J_ECHO = '{"name": "shell", "arguments": {"command": "echo hi"}}'
J_HELLO = '{"name": "write", "arguments": {"path": "hello.txt", "content": "Hello, world!"}}'


@dataclass(frozen=True, slots=True)
class Case:
    """A message, the calls in it, and what else of the result matters.

    `text` None: all of the message is text (or none of it, where there are calls).  `problem`: words of it, empty for none.
    """

    name: str
    message: str
    calls: tuple[Call, ...] = ()
    text: str | None = None
    thinking: str = ""
    problem: str = ""
    is_cut: bool = False
    is_over: bool = False
    form: ToolCallFormat = ToolCallFormat.TEXT
    tools: tuple[ToolSpec, ...] = field(default=TOOLS)

    @property
    def expected_text(self) -> str:
        """Return the text that is to be left."""
        return self.text if self.text is not None else "" if self.calls else self.message


def tagged(*bodies: str) -> str:
    """Return calls as Hermes and Qwen write them."""
    return "\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)


def coder(name: str, **values: str) -> str:
    """Return a call as Qwen3-Coder writes it, without the outer tags."""
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<function={name}>\n{inner}</function>"


HERMES = (
    Case("tag", tagged(J_READ), (READ,)),
    Case("tag on one line", f"<tool_call>{J_READ}</tool_call>", (READ,)),
    Case("two tags", tagged(J_READ, J_LS), (READ, LS)),
    Case("two objects in one tag", tagged(f"{J_READ}\n{J_LS}"), (READ, LS)),
    Case("list in a tag", tagged(f"[{J_READ}, {J_LS}]"), (READ, LS)),
    Case("tag not closed", f"<tool_call>\n{J_READ}", (READ,)),
    Case("tag opened twice", f"<tool_call>\n<tool_call>\n{J_READ}\n</tool_call>", (READ,)),
    Case("closed by an opening tag", f"<tool_call>\n{J_READ}\n<tool_call>\n{J_LS}\n</tool_call>", (READ, LS)),
    Case("prose before", f"I will read it.\n{tagged(J_READ)}", (READ,), "I will read it."),
    Case("prose behind", f"{tagged(J_READ)}\nThen I will see.", (READ,), "Then I will see."),
    Case("prose between", f"One.\n{tagged(J_READ)}\nTwo.\n{tagged(J_LS)}", (READ, LS), "One.\n\nTwo."),
    Case("behind a sentence", f"I look. {tagged(J_READ)}", (READ,), "I look."),
    Case("upper case", f"<TOOL_CALL>{J_READ}</TOOL_CALL>", (READ,)),
    Case("tool_calls", f"<tool_calls>[{J_READ}]</tool_calls>", (READ,)),
    Case("function_call", f"<function_call>{J_READ}</function_call>", (READ,)),
    Case("functioncall", f"<functioncall> {J_READ} </functioncall>", (READ,)),
    Case("json tag", f"<json>\n    {J_READ}\n</json>", (READ,)),
    Case("fence inside", f"<tool_call>\n```json\n{J_READ}\n```\n</tool_call>", (READ,)),
    Case("fence around", f"```xml\n{tagged(J_READ)}\n```", (READ,)),
    Case("end token behind", f"{tagged(J_READ)}<|im_end|>", (READ,)),
    Case("same call twice", tagged(J_READ, J_READ), (READ,)),
    Case("same call, other spacing", tagged(J_READ, J_READ.replace(" ", "")), (READ,)),
    Case("nothing in the tag", "<tool_call>\n</tool_call>", text="<tool_call>\n</tool_call>"),
    Case("name alone in a tag", tagged('{"name": "get_time"}'), (("get_time", {}),)),
    Case("arguments null", tagged('{"name": "ls", "arguments": null}'), (("ls", {}),)),
    Case("arguments as text", tagged('{"name": "read", "arguments": "{\\"path\\": \\"notes.txt\\"}"}'), (READ,)),
    Case("mentioned in backticks", "Calls go between `<tool_call>` and `</tool_call>` tags."),
    Case("whole call in backticks", f"Write `<tool_call>{J_READ}</tool_call>` to read."),
    Case("in a code block", f"A template:\n```jinja\n{tagged(J_READ)}\n```\nDone."),
    Case("tag without call", "<tool_call> is the tag that I would use."),
    Case("cut in the tag", f"<tool_call>\n{J_READ[:40]}", problem="cut off", is_cut=True),
    Case("complete, then cut", f"{tagged(J_READ)}\n<tool_call>\n{J_LS[:25]}", (READ,), is_cut=True),
    Case("unknown tool", tagged('{"name": "fly", "arguments": {"to": "moon"}}'), problem="no such tool"),
)

QWEN_CODER = (
    Case("coder", f"<tool_call>\n{coder('read', path='notes.txt')}\n</tool_call>", (READ,)),
    Case("coder without opening tag", f"{coder('read', path='notes.txt')}\n</tool_call>", (READ,)),
    Case("coder bare", coder("read", path="notes.txt"), (READ,)),
    Case("coder prose", f"I look.\n\n{coder('read', path='notes.txt')}\n</tool_call>", (READ,), "I look."),
    Case("coder two", f"<tool_call>\n{coder('read', path='notes.txt')}\n{coder('ls', path='.')}\n</tool_call>", (READ, LS)),
    Case("coder several lines", coder("write", path="a.py", content='def f():\n    return "<b>" if x < 1 else {}\n\n# end'),
        (("write", {"path": "a.py", "content": 'def f():\n    return "<b>" if x < 1 else {}\n\n# end'}),)),
    Case("coder number", coder("read", path="a", offset="5"), (("read", {"path": "a", "offset": 5}),)),
    Case("coder no JSON number", coder("shell", command="x", timeout="NaN"), (("shell", {"command": "x", "timeout": "NaN"}),)),
    Case("coder boolean", coder("edit", path="a", old="x", new="y", all="true"),
        (("edit", {"path": "a", "old": "x", "new": "y", "all": True}),)),
    Case("coder list", coder("todo_add", items='["a", "b"]'), (("todo_add", {"items": ["a", "b"]}),)),
    Case("coder no arguments", "<tool_call>\n<function=get_time>\n</function>\n</tool_call>", (("get_time", {}),)),
    Case("coder one line", "<function=read><parameter=path>notes.txt</parameter></function>", (READ,)),
    Case("coder digits stay text", coder("write", path="n", content="42"), (("write", {"path": "n", "content": "42"}),)),
    Case("coder empty value", coder("edit", path="a", old="x", new=""), (("edit", {"path": "a", "old": "x", "new": ""}),)),
    Case("coder value not closed", "<tool_call>\n<function=read>\n<parameter=path>\nnotes.txt\n</function>\n</tool_call>",
        (READ,)),
    Case("coder first value not closed",
        "<function=write>\n<parameter=path>\nhello.txt\n<parameter=content>\nHello, world!\n</parameter>\n</function>",
        (HELLO,)),
    Case("coder function not closed", "<tool_call>\n<function=read>\n<parameter=path>\nnotes.txt\n</parameter>\n</tool_call>",
        (READ,)),
    Case("coder alias", coder("read_file", file_path="notes.txt"), (("read", {"path": "notes.txt"}),)),
    Case("coder cut in a value", "<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\nabc",
        problem="cut off", is_cut=True),
    Case("coder ends in a value", "<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\nabc",
        problem="too early"),
    Case("coder unknown", coder("fly", to="moon"), problem="no such tool"),
    Case("llama function tag", '<function=read>{"path": "notes.txt"}</function>', (READ,)),
    Case("llama function tag, end token", '<function=read>{"path": "notes.txt"}</function><|eom_id|>', (READ,)),
    Case("coder ambiguous end",
        "<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\nx</parameter>y\n</parameter>\n</function>",
        problem="not clear where"),
    Case("coder closes inside its content",
        coder("write", path="doc.md", content="Write:\n</function>\n</tool_call>\nand go on."),
        text="and go on.\n</parameter>\n</function>", problem="not clear where"),
)  # fmt: skip

OTHER_TAGS = (
    Case("invoke", '<invoke name="read">\n<parameter name="path">notes.txt</parameter>\n</invoke>', (READ,)),
    Case("function_calls",
        '<function_calls>\n<invoke name="read">\n<parameter name="path">notes.txt</parameter>\n</invoke>\n</function_calls>',
        (READ,)),
    Case("minimax", '<minimax:tool_call>\n<invoke name="read">\n<parameter name="path">notes.txt</parameter>\n'
        "</invoke>\n</minimax:tool_call>", (READ,)),
    Case("deepseek dsml",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read">\n<｜DSML｜parameter name="path" string="true">'
        "notes.txt</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", (READ,)),
    Case("tool name", '<tool name="read">{"path": "notes.txt"}</tool>', (READ,)),
    Case("tool name, parameters", '<tool name="read"><parameter name="path">notes.txt</parameter></tool>', (READ,)),
    Case("tool_call name", '<tool_call name="read">{"path": "notes.txt"}</tool_call>', (READ,)),
    Case("function name", '<function name="read"><param name="path">notes.txt</param></function>', (READ,)),
    Case("nested tags", "<read>\n<path>notes.txt</path>\n</read>", (READ,)),
    Case("nested tags, two values", "<write><path>hello.txt</path><content>Hello, world!</content></write>", (HELLO,)),
    Case("html is text", "<div class='x'>\n<p>Hi</p>\n</div>"),
    Case("generic is text", "Use List<String> and a < b, a<b>c."),
    Case("glm", "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>notes.txt</arg_value>\n</tool_call>", (READ,)),
    Case("glm-4, name on its line", 'read\n{"path": "notes.txt"}', (READ,)),
    Case("glm two values",
        "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>hello.txt</arg_value>\n<arg_key>content</arg_key>\n"
        "<arg_value>Hello, world!</arg_value>\n</tool_call>", (HELLO,)),
    Case("glm no arguments", "<tool_call>get_time\n</tool_call>", (("get_time", {}),)),
    Case("glm on one line", "<tool_call>read<arg_key>path</arg_key><arg_value>notes.txt</arg_value></tool_call>", (READ,)),
    Case("glm two calls", "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>notes.txt</arg_value>\n</tool_call>\n"
        "<tool_call>ls\n<arg_key>path</arg_key>\n<arg_value>.</arg_value>\n</tool_call>", (READ, LS)),
    Case("seed", f"<seed:tool_call>\n{coder('read', path='notes.txt')}\n</seed:tool_call>", (READ,)),
)  # fmt: skip

BRACKETS = (
    Case("mistral list", f"[TOOL_CALLS][{J_READ}]", (READ,)),
    Case("mistral list, space", f"[TOOL_CALLS] [{J_READ}, {J_LS}]", (READ, LS)),
    Case("mistral name", '[TOOL_CALLS]read{"path": "notes.txt"}', (READ,)),
    Case("mistral args", '[TOOL_CALLS]read[ARGS]{"path": "notes.txt"}', (READ,)),
    Case("mistral id", '[TOOL_CALLS]read[CALL_ID]abc123def[ARGS]{"path": "notes.txt"}', (READ,)),
    Case("mistral two", '[TOOL_CALLS]read[ARGS]{"path": "notes.txt"}[TOOL_CALLS]ls[ARGS]{"path": "."}', (READ, LS)),
    Case("mistral prose", f"Let me look.[TOOL_CALLS][{J_READ}]", (READ,), "Let me look."),
    Case("mistral mark dropped", 'read{"path": "notes.txt"}', (READ,)),
    Case("mistral args, mark dropped", 'read[ARGS]{"path": "notes.txt"}', (READ,)),
    Case("mistral unknown", '[TOOL_CALLS]fly[ARGS]{"to": "moon"}', problem="no such tool"),
    Case("mistral cut, one whole", f"[TOOL_CALLS][{J_READ}, {J_LS[:20]}", (READ,), f"[TOOL_CALLS][{J_READ}, {J_LS[:20]}",
        is_cut=True),
    Case("llama tag", f"<|python_tag|>{J_READ.replace('arguments', 'parameters')}", (READ,)),
    Case("llama tag, end", f"<|python_tag|>{J_READ}<|eom_id|>", (READ,)),
    Case("llama two", f"<|python_tag|>{J_READ}; {J_LS}", (READ, LS)),
    Case("llama bare", '{"name": "read", "parameters": {"path": "notes.txt"}}', (READ,)),
    Case("llama typed", '{"type": "function", "name": "read", "parameters": {"path": "notes.txt"}}', (READ,)),
    Case("llama pythonic", '[read(path="notes.txt"), ls(path=".")]', (READ, LS)),
    Case("llama 4", '<|python_start|>[read(path="notes.txt")]<|python_end|>', (READ,)),
    Case("lfm2", '<|tool_call_start|>[read(path="notes.txt")]<|tool_call_end|>', (READ,)),
    Case("granite", f"<|tool_call|>[{J_READ}]", (READ,)),
    Case("granite 3", f"<tool_call>[{J_READ}]</tool_call>", (READ,)),
    Case("phi", f"functools[{J_READ}]", (READ,)),
    Case("phi 4 mini", f"<|tool_call|>[{J_READ}]<|/tool_call|>", (READ,)),
    Case("nemotron", f"<TOOLCALL>[{J_READ}]</TOOLCALL>", (READ,)),
    Case("command r", '<|START_ACTION|>[{"tool_name": "read", "parameters": {"path": "notes.txt"}}]<|END_ACTION|>', (READ,)),
    Case("internlm", '<|action_start|><|plugin|>{"name": "read", "parameters": {"path": "notes.txt"}}<|action_end|>', (READ,)),
    Case("kimi", "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
        '{"path": "notes.txt"}<|tool_call_end|><|tool_calls_section_end|>', (READ,)),
    Case("kimi two", "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
        '{"path": "notes.txt"}<|tool_call_end|><|tool_call_begin|>functions.ls:1<|tool_call_argument_begin|>'
        '{"path": "."}<|tool_call_end|><|tool_calls_section_end|>', (READ, LS)),
    Case("deepseek v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n"
        '{"path": "notes.txt"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>', (READ,)),
    Case("deepseek v3 two", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n"
        '{"path": "notes.txt"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>ls\n```json\n'
        '{"path": "."}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>', (READ, LS)),
    Case("deepseek v3.1", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": "notes.txt"}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>", (READ,)),
    Case("link is text", "[notes](notes.txt) and [1, 2, 3]"),
    Case("checkbox is text", "[ ] one\n[x] two\n[read] three"),
    Case("section is text", "[tool.ruff]\nline-length = 100\n[read]\npath = 1"),
)  # fmt: skip

HARMONY = (
    Case("harmony", "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.read "
        '<|constrain|>json<|message|>{"path": "notes.txt"}<|call|>', (READ,), thinking="I look."),
    Case("harmony, recipient first",
        '<|start|>assistant to=functions.read<|channel|>commentary<|constrain|>json<|message|>{"path": "notes.txt"}<|call|>',
        (READ,)),
    Case("harmony final",
        "<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final<|message|>It is 4.<|return|>",
        text="It is 4.", thinking="Easy."),
    Case("harmony preamble",
        "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant<|channel|>commentary to=functions.read"
        '<|message|>{"path": "notes.txt"}<|call|>', (READ,), "I will look."),
    Case("harmony marks dropped", 'commentary to=functions.read json{"path": "notes.txt"}', (READ,)),
    Case("harmony unknown", '<|channel|>commentary to=functions.fly<|message|>{"to": "moon"}<|call|>', text='{"to": "moon"}',
        problem="no such tool"),
    Case("harmony invented answer", '<|channel|>commentary to=functions.ls<|message|>{"path": "."}<|call|>'
        "<|start|>functions.ls to=assistant<|message|>a.txt", (LS,), is_over=True),
)  # fmt: skip

JSON = (
    Case("bare", J_READ, (READ,)),
    Case("bare, line end", f"{J_READ}\n", (READ,)),
    Case("bare, spread", '{\n  "name": "read",\n  "arguments": {\n    "path": "notes.txt"\n  }\n}', (READ,)),
    Case("fence json", f"```json\n{J_READ}\n```", (READ,)),
    Case("fence without name", f"```\n{J_READ}\n```", (READ,)),
    Case("fence tool_call", f"```tool_call\n{J_READ}\n```", (READ,)),
    Case("fence not closed", f"```json\n{J_READ}", (READ,)),
    Case("fence, two objects", f"```json\n{J_READ}\n{J_LS}\n```", (READ, LS)),
    Case("fence, list", f"```json\n[\n{J_READ},\n{J_LS}\n]\n```", (READ, LS)),
    Case("two fences", f"```json\n{J_READ}\n```\n\n```json\n{J_LS}\n```", (READ, LS)),
    Case("fence, prose before", f"I will read the file.\n\n```json\n{J_READ}\n```", (READ,), "I will read the file."),
    Case("fence, remark behind", f"```json\n{J_READ}\n```\nThis reads the file.", (READ,), "This reads the file."),
    Case("lines of objects", f"{J_READ}\n{J_LS}\n{J_ECHO}", (READ, LS, ECHO)),
    Case("list", f"[{J_READ}, {J_LS}]", (READ, LS)),
    Case("prose, then bare", f"I will read it:\n{J_READ}", (READ,), "I will read it:"),
    Case("behind a colon", f"Action: {J_READ}", (READ,), "Action:"),
    Case("behind a sentence", f"I will read it. {J_READ}", (READ,), "I will read it."),
    Case("raw line in a text", '{"name": "write", "arguments": {"path": "a", "content": "x\ny\tz"}}',
        (("write", {"path": "a", "content": "x\ny\tz"}),)),
    Case("braces and fences in a text",
        '{"name": "write", "arguments": {"path": "a", "content": "}```{\\"x\\": [1}\\n```\\n"}}',
        (("write", {"path": "a", "content": '}```{"x": [1}\n```\n'}),)),
    Case("tags in a text", '{"name": "write", "arguments": {"path": "a", "content": "<tool_response><|im_end|></tool_call>"}}',
        (("write", {"path": "a", "content": "<tool_response><|im_end|></tool_call>"}),)),
    Case("tool and args", '{"tool": "read", "args": {"path": "notes.txt"}}', (READ,)),
    Case("function and parameters", '{"function": "read", "parameters": {"path": "notes.txt"}}', (READ,)),
    Case("tool_name and tool_input", '{"tool_name": "read", "tool_input": {"path": "notes.txt"}}', (READ,)),
    Case("action and action_input", '{"action": "read", "action_input": {"path": "notes.txt"}}', (READ,)),
    Case("action_input as text", '{"action": "read", "action_input": "notes.txt"}', (READ,)),
    Case("function object", f'{{"type": "function", "function": {J_READ}}}', (READ,)),
    Case("function object, text",
        '{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\\"path\\": \\"notes.txt\\"}"}}',
        (READ,)),
    Case("tool_calls object", f'{{"tool_calls": [{J_READ}, {J_LS}]}}', (READ, LS)),
    Case("key is the tool", '{"read": {"path": "notes.txt"}}', (READ,)),
    Case("arguments inline", '{"name": "read", "path": "notes.txt"}', (READ,)),
    Case("thought beside", '{"thought": "I look", "name": "read", "arguments": {"path": "notes.txt"}}', (READ,)),
    Case("arguments first", '{"arguments": {"path": "notes.txt"}, "name": "read"}', (READ,)),
    Case("alias", J_READ.replace("read", "read_file"), (READ,)),
    Case("case", J_READ.replace("read", "Read"), (READ,)),
    Case("dash", '{"name": "get-time", "arguments": {}}', (("get_time", {}),)),
    Case("prefix", J_READ.replace('"read', '"functions.read'), (READ,)),
    Case("unknown arguments are left to the tool", '{"name": "read", "arguments": {"path": "a", "required": ["path"]}}',
        (("read", {"path": "a", "required": ["path"]}),)),
    Case("double braces", '{{"name": "read", "arguments": {"path": "notes.txt"}}}', (READ,)),
    Case("all braces doubled", '{{"name": "read", "arguments": {{"path": "notes.txt"}}}}', (READ,)),
    Case("double braces in angles", '<{{"name": "read", "arguments": {"path": "notes.txt"}}}>', (READ,)),
    Case("one brace short in angles", '<{{"name": "read", "arguments": {"path": "notes.txt"}}>', (READ,)),
    Case("last brace missing", J_READ[:-1], (READ,)),
    Case("last brace missing in a fence", f"```json\n{J_READ[:-1]}\n```", (READ,)),
    Case("last brace missing in a tag", tagged(J_READ[:-1]), (READ,)),
    Case("last brace missing before the next", f"{J_READ[:-1]}\n{J_LS}", (READ, LS)),
    Case("brace too many", f"{J_READ}}}", (READ,)),
    Case("brace too many in a fence", f"```json\n{J_READ}}}\n```", (READ,)),
    Case("bracket missing", f"[{J_READ}, {J_LS}", (READ, LS)),
    Case("trailing comma", '{"name": "read", "arguments": {"path": "notes.txt",},}', (READ,)),
    Case("comment", '{"name": "read", "arguments": {"path": "a" // the path\n}}', (("read", {"path": "a"}),)),
    Case("unescaped quotes", '{"name": "write", "arguments": {"path": "a", "content": "say "hi" to me"}}',
        (("write", {"path": "a", "content": 'say "hi" to me'}),)),
    Case("unescaped html", '{"name": "write", "arguments": {"path": "a", "content": "<a href="x">y</a>"}}',
        (("write", {"path": "a", "content": '<a href="x">y</a>'}),)),
    Case("single quotes", "{'name': 'read', 'arguments': {'path': 'notes.txt'}}", (READ,)),
    Case("python words", "{'name': 'edit', 'arguments': {'path': 'a', 'old': 'x', 'new': 'y', 'all': True}}",
        (("edit", {"path": "a", "old": "x", "new": "y", "all": True}),)),
    Case("escaped single quote", '{"name": "shell", "arguments": {"command": "echo \\\'x\\\'"}}',
        (("shell", {"command": "echo 'x'"}),)),
    Case("escape of a pattern", '{"name": "grep", "arguments": {"pattern": "\\d+\\."}}', (("grep", {"pattern": "\\d+\\."}),)),
    Case("stray fence end", f"{J_READ}\n```", (READ,)),
    Case("comma behind", f"{J_READ},", (READ,)),
    Case("same line twice", f"{J_READ}\n{J_READ}", (READ,)),
    Case("blank lines behind", f"{J_READ}\n\n\n\n", (READ,)),
    Case("end token", f"{J_READ}<|im_end|>", (READ,)),
    Case("argument missing", '{"name": "write", "arguments": {"content": "x"}}', problem="path is missing"),
    Case("complete, then cut", f"{J_READ}\n{J_LS[:20]}", (READ,), is_cut=True),
    Case("unicode", '{"name": "write", "arguments": {"path": "ä", "content": "\\u00fc \\ud83d\\ude00 你好"}}',
        (("write", {"path": "ä", "content": "ü 😀 你好"}),)),
)  # fmt: skip

REFUSED = (
    Case("types for arguments", '{"name": "shell", "parameters": {"command": "string"}}', problem="describes the tool"),
    Case("cut in a text", '{"name": "write", "arguments": {"path": "a", "content": "abc', problem="cut off", is_cut=True),
    Case("cut behind a text", '{"name": "write", "arguments": {"path": "a"', problem="cut off", is_cut=True),
    Case("cut with one brace missing", J_READ[:-1], problem="cut off", is_cut=True),
    Case("ends in a text", '{"name": "write", "arguments": {"path": "a", "content": "abc', problem="too early"),
    Case("triple quotes", '```json\n{"name": "write", "arguments": {"path": "a.py", "content": """\nx = 1\n"""}}\n```',
        problem="not escaped"),
    Case("format", '{"name": "write", "arguments": {"path": "a", "content": "Hi {}".format("Ada")}}', problem="not escaped"),
    Case("plus", '{"name": "write", "arguments": {"path": "a", "content": "x" + "y"}}', problem="not escaped"),
    Case("two texts", '{"name": "write", "arguments": {"path": "a", "content": "x" "y"}}', problem="not escaped"),
    Case("two values", '{"name": "read", "arguments": {"path": "a", "path": "b"}}', problem="twice"),
    Case("f-string", '{"name": "shell", "arguments": {"command": f"echo {x}"}}', problem="not a plain value"),
    Case("variable", '{"name": "read", "arguments": {"path": name}}', problem="not a plain value"),
    Case("comment to the end", '{"name": "read", "arguments": {"path": "a" // the path}}', problem="too early"),
    Case("unescaped quotes, a comma between", '{"name": "write", "arguments": {"path": "a", "content": "print("x", "y")"}}',
        problem="not escaped"),
    Case("no names", '{"name": "write", "arguments": ["a", "b"]}', problem="no names"),
    Case("unknown", '{"name": "average", "arguments": {"numbers": [2, 4, 6]}}', problem="no such tool"),
    Case("unknown in a fence", '```json\n{"name": "greet", "arguments": {"name": "Ada"}}\n```', problem="no such tool"),
    Case("definition", '{"type": "function", "function": {"name": "ls", "description": "Lists.", "parameters": '
        '{"type": "object", "properties": {"path": {"type": "string"}}}}}', problem="describes the tool"),
    Case("good and bad", f'{J_READ}\n{{"name": "write", "arguments": {{"path": "a", "content": "x" + y}}}}', (READ,),
        '{"name": "write", "arguments": {"path": "a", "content": "x" + y}}', problem="write was not run"),
)  # fmt: skip

PYTHON = (
    Case("python", 'read(path="notes.txt")', (READ,)),
    Case("python single quotes", "read(path='notes.txt')", (READ,)),
    Case("python list", "[read(path='notes.txt')]", (READ,)),
    Case("python no arguments", "get_time()", (("get_time", {}),)),
    Case("python number", "read(path='a', offset=5)", (("read", {"path": "a", "offset": 5}),)),
    Case("python one value", 'read("notes.txt")', (READ,)),
    Case("python lines", 'read(path="notes.txt")\nls(path=".")', (READ, LS)),
    Case("python list value", "todo_add(items=['a', 'b'])", (("todo_add", {"items": ["a", "b"]}),)),
    Case("python escapes", 'write(path="a", content="x\\ny (z")', (("write", {"path": "a", "content": "x\ny (z"}),)),
    Case("python triple", 'write(path="a", content="""x\n"y"\n""")', (("write", {"path": "a", "content": 'x\n"y"\n'}),)),
    Case("tool_code", '```tool_code\nread(path="notes.txt")\n```', (READ,)),
    Case("python fence", '```python\nread(path="notes.txt")\n```', (READ,)),
    Case("python prose before", 'I look.\nread(path="notes.txt")', (READ,), "I look."),
    Case("python in a tag", '<tool_call>\nread(path="notes.txt")\n</tool_call>', (READ,)),
    Case("python function", "<tool_code>read(path='notes.txt')</tool_code>", problem="read was not run"),
    Case("python expression", 'shell(command="echo " + x)', problem="shell was not run"),
    Case("python f-string", 'shell(command=f"echo {x}")', problem="shell was not run"),
    Case("python print", 'print(read(path="notes.txt"))'),
    Case("python code", '```python\nread(path="notes.txt")\nx = 1\n```'),
    Case("python assignment", '```python\nx = read(path="notes.txt")\n```'),
    Case("python definition", "```python\ndef read(path):\n    return open(path).read()\n```"),
    Case("python in a sentence", "Done: ls(colors.txt) lists red and green."),
    Case("python signature", "read(path) gives the content of a file."),
    Case("python unknown argument", 'read(path="a", mode="r")', problem="it has no argument mode"),
    Case("python unknown function", 'open("notes.txt")'),
)

THINKING = (
    Case("think", f"<think>I look.</think>\n\n{tagged(J_READ)}", (READ,), thinking="I look."),
    Case("think, answer", "<think>\nHm.\n</think>\n\nIt is 4.", text="It is 4.", thinking="\nHm.\n"),
    Case("think, closing tag only", "I look.\n</think>\n\nIt is 4.", text="It is 4.", thinking="I look.\n"),
    Case("closing tag only, call", f"I look.\n</think>\n{tagged(J_READ)}", (READ,), thinking="I look.\n"),
    Case("thinking", "<thinking>Hm.</thinking>Yes.", text="Yes.", thinking="Hm."),
    Case("magistral", "[THINK]Hm.[/THINK]Yes.", text="Yes.", thinking="Hm."),
    Case("think not closed", "<think>Hm, hm", text="", thinking="Hm, hm"),
    Case("call in open thinking", f"<think>I look.\n{tagged(J_READ)}", (READ,), thinking=f"I look.\n{tagged(J_READ)}"),
    Case("bare call in open thinking", f"<think>I look.\n{J_READ}", (READ,), thinking=f"I look.\n{J_READ}"),
    Case("call in closed thinking, answer", f"<think>{tagged(J_READ)}</think>It is 4.", text="It is 4.",
        thinking=tagged(J_READ)),
    Case("call in closed thinking, nothing behind", f"<think>{tagged(J_READ)}</think>", (READ,), thinking=tagged(J_READ)),
    Case("draft in closed thinking", f"<think>Maybe\n{J_ECHO}\n</think>", text="", thinking=f"Maybe\n{J_ECHO}\n"),
    Case("call in the middle of open thinking", f"<think>{tagged(J_READ)} or rather not, I wait.", text="",
        thinking=f"{tagged(J_READ)} or rather not, I wait."),
    Case("two calls, one thought", f"<think>{tagged(J_ECHO)}</think>{tagged(J_READ)}", (READ,), thinking=tagged(J_ECHO)),
    Case("thinking inside a call", f"<tool_call>\n<think>which?</think>\n{J_READ}\n</tool_call>", (READ,), thinking="which?"),
    Case("think between calls", f"{tagged(J_READ)}\n<think>next</think>\n{tagged(J_LS)}", (READ, LS), thinking="next"),
    Case("think in backticks", "The `<think>` tag opens, `</think>` closes."),
    Case("think in a line", "a < b <think>not at the start"),
    Case("text, then think", "Sure.\n<think>Hm.</think>\nYes.", text="Sure.\nYes.", thinking="Hm."),
    Case("half a tag", "<thin"),
    Case("call before the only closing tag, answer", f"{tagged(J_ECHO)}\n</think>\nIt is 4.", text="It is 4.",
        thinking=tagged(J_ECHO)),
)  # fmt: skip

TURNS = (
    Case("tool response", f"{J_READ}\n<tool_response>\nabc\n</tool_response>", (READ,), is_over=True),
    Case("response first", "<tool_response>\nabc\n</tool_response>", text="", problem="comes only after", is_over=True),
    Case("user turn", f"{tagged(J_READ)}<|im_end|>\n<|im_start|>user\nhi", (READ,), is_over=True),
    Case("end of turn", "Done.<end_of_turn>\n<start_of_turn>user\nhi", text="Done.", is_over=True),
    Case("eot", "Done.<|eot_id|>", text="Done."),
    Case("inst", "Done.\n[/INST] more", text="Done.", is_over=True),
    Case("observation behind a call", f"{J_READ}\nObservation: abc", (READ,), is_over=True),
    Case("observation in prose", "Observation: the sky is blue."),
    Case("user in prose", "Log:\nUser: ada\nHost: x"),
    Case("mistral results", f"[TOOL_CALLS][{J_READ}][TOOL_RESULTS]abc", (READ,), is_over=True),
    Case("calls behind the response do not count", f"{tagged(J_READ)}\n<tool_response>\nx\n</tool_response>\n{tagged(J_ECHO)}",
        (READ,), is_over=True),
    Case("end in code", "```text\n<|im_end|> ends a turn\n```\nThat is it."),
)  # fmt: skip

LONG = "This explains at length what such a call does, which is to read a file and to give its content back. " * 4
EXAMPLES = (
    Case("example words", f"For example, this reads a file:\n\n```json\n{J_READ}\n```"),
    Case("explanation behind", f"You can read files:\n\n```json\n{J_READ}\n```\n\n{LONG}"),
    Case("question behind", f"```json\n{J_ECHO}\n```\nShall I run this?"),
    Case("inline", f"Use the object {J_READ} to read a file."),
    Case("inline, no lead", f"Sending {J_READ}"),
    Case("data", '{"users": [{"name": "read", "age": 5}], "total": 1}'),
    Case("package", '```json\n{"name": "read", "version": "1.0.0", "scripts": {"test": "x"}}\n```'),
    Case("list of data", '[{"name": "ls"}, {"name": "read"}]'),
    Case("a file's content", f"The file contains:\n\n{J_ECHO}"),
    Case("a file's content, fenced", f"Here is the content of `calls.json`:\n\n```json\n{J_ECHO}\n```\n\nThat is all of it."),
    Case("a file's content, between marks", f"README.md says:\n{tagged(J_ECHO)}\nThat is all."),
    Case("what a command printed", f"The command printed:\n\n```\n{J_ECHO}\n```"),
    Case("the output of a command", f"The output of the command was:\n{J_ECHO}"),
    Case("for a file", '```json\n{"a": 1}\n```\nAdd this to `mcp.json`:\n\n```json\n{"shell": {"command": "npx foo"}}\n```'),
    Case("in a quotation", f"> {tagged(J_ECHO)}"),
    Case("between tildes", f"~~~\n{tagged(J_ECHO)}\n~~~~\nSo it is."),
    Case("deep in data", f'{{"messages": [{{"tool_calls": [{{"function": {J_ECHO}}}]}}]}}'),
    Case("deep in data, on lines", f'{{\n "x": [\n  {J_ECHO},\n  {J_LS}\n ],\n "y":\n  {J_READ}\n}}'),
    *(
        Case(f"no quotation, {words}", f"{words}:\n\n{J_READ}", (READ,), text=f"{words}:")
        for words in (
            "Let me see what notes.txt contains",
            "I look at the contents of notes.txt",
            "Let me check the files that contain this text",
            "I will put it so that the file says the following",
        )
    ),
    Case("a named file is no data", f'I look at "notes.txt":\n\n{J_READ}', (READ,), text='I look at "notes.txt":'),
    Case("name alone", '{"name": "ls"}'),
    Case("config", '{"type": "object", "properties": {"path": {"type": "string"}}}'),
    Case("shell block", "Run this:\n\n```bash\nls -la\nread(path='x')\n```"),
    Case("json of code", '```javascript\nconst call = {"name": "read", "arguments": {"path": "a"}};\n```'),
    Case("don't", f"Do not run this:\n```json\n{J_ECHO}\n```"), Case("plain", "It is 4."),
    Case("empty", ""), Case("blank", "  \n\n"),
    Case("table", "| a | b |\n|---|---|\n| `{` | [x] |"),
    Case("code", "```python\nif x < 1 and y[0] == {}:\n    pass\n```\nok"),
    Case("leading space", "\n\n  hi"),
    Case("markdown", "# Title\n\n- [ ] one\n- `two`\n\n> three <b>four</b> {five}"),
)  # fmt: skip

SCHEMA = (
    Case("schema call", J_READ, (READ,), form=ToolCallFormat.SCHEMA),
    Case("schema done", '{"name": "done", "arguments": {"answer": "It is\\n\\"4\\" \\u00fc \\ud83d\\ude00."}}',
        text='It is\n"4" ü 😀.', form=ToolCallFormat.SCHEMA),
    Case("schema done, spread", '{ "name" : "done" ,\n "arguments" : { "answer" : "4" } }', text="4",
        form=ToolCallFormat.SCHEMA),
    Case("schema done, turned", '{"arguments": {"answer": "4"}, "name": "done"}', text="4", form=ToolCallFormat.SCHEMA),
    Case("schema done, other key", '{"name": "done", "arguments": {"text": "4"}}', text="4", form=ToolCallFormat.SCHEMA),
    Case("schema done, cut", '{"name": "done", "arguments": {"answer": "It is', text="It is", is_cut=True,
        form=ToolCallFormat.SCHEMA),
    Case("schema call, cut", J_READ[:-12], problem="cut off", is_cut=True, form=ToolCallFormat.SCHEMA),
    Case("schema not held", "It is 4.", form=ToolCallFormat.SCHEMA),
    Case("schema not held, tag", tagged(J_READ), (READ,), form=ToolCallFormat.SCHEMA),
    Case("schema unknown", '{"name": "fly", "arguments": {"to": "moon"}}', problem="no such tool", form=ToolCallFormat.SCHEMA),
    Case("schema empty", "", form=ToolCallFormat.SCHEMA),
    Case("schema thinking", "<think>Hm.</think>" + J_READ, (READ,), thinking="Hm.", form=ToolCallFormat.SCHEMA),
)  # fmt: skip


def gemma(body: str, *, closer: str = "<tool_call|>") -> str:
    """Return a call as Gemma 4 writes it."""
    return f"<|tool_call>call:{body}{closer}"


def kimi(name: str, **values: str) -> str:
    """Return a call as Kimi K3 writes it, without the channel around the calls."""
    inner = "".join(
        f'<|open|>argument key="{key}" type="string"<|sep|>{value}<|close|>argument<|sep|>' for key, value in values.items()
    )
    return f'<|open|>call tool="{name}" index="1"<|sep|>{inner}<|close|>call<|sep|>'


RAW: Call = ("write", {"path": "a {b}.py", "content": 'if x == {"a": 1}:\n    print("hi \\n", \'}\')\n'})
Q = '<|"|>'
GEMMA_READ = gemma(f"read{{path:{Q}notes.txt{Q}}}")
HTML: Call = ("write", {"path": "a", "content": '<b>"{x}"</b>\n'})
RAW_BODY = f"write{{content:{Q}{RAW[1]['content']}{Q},path:{Q}{RAW[1]['path']}{Q}}}"
K3_HELLO = kimi("write", path="hello.txt", content="Hello, world!")
K3_CALLS = f"<|open|>tools<|sep|>{K3_HELLO}<|close|>tools<|sep|>"
K3_TAIL = f"<|open|>response<|sep|>Now.<|close|>response<|sep|>{K3_CALLS}<|close|>message<|sep|><|end_of_msg|>"
GLM_END = "echo hi</arg_value></tool_call>"

FAMILIES = (
    Case("gemma 4", GEMMA_READ, (READ,)),
    Case("gemma 4, raw value", gemma(RAW_BODY), (RAW,)),
    Case("gemma 4, kinds", gemma(f"read{{limit:20,offset:3,path:{Q}notes.txt{Q}}}"),
        (("read", {"path": "notes.txt", "limit": 20, "offset": 3}),)),
    Case("gemma 4, list", gemma(f"todo_add{{items:[{Q}a{Q},{{title:{Q}b, c{Q},done:true}}]}}"),
        (("todo_add", {"items": ["a", {"title": "b, c", "done": True}]}),)),
    Case("gemma 4, nothing", gemma("get_time{}"), (("get_time", {}),)),
    Case("gemma 4, two", GEMMA_READ + gemma(f"ls{{path:{Q}.{Q}}}"), (READ, LS)),
    Case("gemma 4, thought", f"<|channel>thought\nI read it.\n<channel|>{GEMMA_READ}<turn|>", (READ,),
        thinking="\nI read it.\n"),
    Case("gemma 4, empty thought", "<|channel>thought\n<channel|>It is 4.<turn|>", text="It is 4.", thinking="\n"),
    Case("gemma 4, parentheses", gemma('write(path: "hello.txt", content: "Hello, world!")'), (HELLO,)),
    Case("gemma 4, Python", gemma('read(path="notes.txt")'), (READ,)),
    Case("gemma 4, name twice", gemma('read:read{path: "notes.txt"}'), (READ,)),
    Case("gemma 4, keys in marks", gemma(f"read{{{Q}path{Q}:{Q}notes.txt{Q}}}"), (READ,)),
    Case("gemma 4, JSON", gemma('read{"path": "notes.txt"}'), (READ,)),
    Case("gemma 4, no end", gemma(f"read{{path:{Q}notes.txt{Q}}}", closer=""), (READ,)),
    Case("gemma 4, no begin", f"call:read{{path:{Q}notes.txt{Q}}}<tool_call|>", (READ,)),
    Case("gemma 4, behind words", f"I read it.\n{GEMMA_READ}", (READ,), text="I read it."),
    Case("gemma 4, result", f"{GEMMA_READ}<|tool_response>response:read{{}}", (READ,), is_over=True),
    Case("gemma 4, unknown", gemma(f"fly{{to:{Q}moon{Q}}}"), problem="no such tool"),
    Case("gemma 4, cut", gemma(f"write{{path:{Q}a{Q},content:{Q}Hel", closer=""), problem="cut off", is_cut=True),
    Case("gemma 4, no quotes", gemma("read{path:notes.txt}"), problem="read was not run"),
    Case("function gemma", "<start_function_call>call:read{path:<escape>notes.txt<escape>}<end_function_call>", (READ,)),
    Case("function gemma, result", "<start_function_call>call:read{path:<escape>notes.txt<escape>}<end_function_call>"
        "<start_function_response>response:read{value:<escape>x<escape>}<end_function_response>", (READ,), is_over=True),
    Case("kimi k3", K3_CALLS, (HELLO,)),
    Case("kimi k3, call alone", K3_HELLO, (HELLO,)),
    Case("kimi k3, channels", f"<|open|>think<|sep|>Hm.<|close|>think<|sep|>{K3_TAIL}", (HELLO,), text="Now.", thinking="Hm."),
    Case("kimi k3, closing tag of a thought alone", f"Hm.<|close|>think<|sep|>{K3_TAIL}", (HELLO,), text="Now.",
        thinking="Hm."),
    Case("kimi k3, answer", "<|open|>response<|sep|>It is 4.<|close|>response<|sep|><|end_of_msg|>", text="It is 4."),
    Case("kimi k3, number", '<|open|>tools<|sep|><|open|>call tool="read" index="1"<|sep|><|open|>argument key="path" '
        'type="string"<|sep|>notes.txt<|close|>argument<|sep|><|open|>argument key="limit" type="number"<|sep|>3'
        "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>", (("read", {"path": "notes.txt", "limit": 3}),)),
    Case("kimi k3, raw value", kimi("write", path="a", content='<b>"{x}"</b>\n'), (HTML,)),
    Case("kimi k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
        '{"path": "notes.txt"}<|tool_call_end|><|tool_calls_section_end|>', (READ,)),
    Case("glm", "<tool_call>shell\n<arg_key>command</arg_key>\n<arg_value>echo hi</arg_value>\n</tool_call>", (ECHO,)),
    Case("ernie, a call behind its answer", f"<think>Hm.</think>\n\n<response>\nI look.\n</response>\n\n{tagged(J_READ)}",
        (READ,), text="I look.", thinking="Hm."),
    Case("glm, no arg_value", f"<tool_call>shell<arg_key>command</arg_key>{GLM_END}", (ECHO,)),
    Case("glm, no arg_key", f"<tool_call>shellcommand</arg_key><arg_value>{GLM_END}", (ECHO,)),
    Case("glm, no arg_key on its line", f"<tool_call>shell\ncommand</arg_key>\n<arg_value>{GLM_END}", (ECHO,)),
    Case("glm, key not closed", f"<tool_call>shell<arg_key>command<arg_value>{GLM_END}", (ECHO,)),
    Case("glm, value not closed", "<tool_call>shell<arg_key>command</arg_key><arg_value>echo hi</tool_call>", (ECHO,)),
    Case("glm, no tool_call", f"shell<arg_key>command</arg_key><arg_value>{GLM_END}", (ECHO,)),
    Case("glm, no end", "<tool_call>shell<arg_key>command</arg_key><arg_value>echo hi</arg_value>", (ECHO,)),
    Case("glm, second key without its mark", "<tool_call>read<arg_key>path</arg_key><arg_value>notes.txt</arg_value>"
        "limit</arg_key><arg_value>3</arg_value></tool_call>", (("read", {"path": "notes.txt", "limit": 3}),)),
    Case("hunyuan 2", "<tool_calls>\n<tool_call>shell<tool_sep>\n<arg_key>command</arg_key>\n<arg_value>echo hi</arg_value>\n"
        "</tool_call>\n</tool_calls>", (ECHO,)),
    Case("hunyuan", f"<think>Hm.</think>\n<answer>\n<tool_calls>\n[{J_READ}]\n</tool_calls>\n</answer>", (READ,),
        thinking="Hm."),
    Case("hunyuan, answer", "<think>Hm.</think><answer>It is 4.</answer>", text="It is 4.", thinking="Hm."),
    Case("deepseek v4", '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="read">\n<｜DSML｜parameter name="path" string="true">'
        "notes.txt</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>", (READ,)),
    Case("deepseek v4, ASCII", '<|DSML|tool_calls><|DSML|invoke name="read"><|DSML|parameter name="path" string="true">'
        "notes.txt</|DSML|parameter></|DSML|invoke></|DSML|tool_calls>", (READ,)),
    Case("deepseek v3, ASCII", '<|tool_calls_begin|><|tool_call_begin|>read<|tool_sep|>{"path": "notes.txt"}<|tool_call_end|>'
        "<|tool_calls_end|>", (READ,)),
    Case("apertus", '<|tools_prefix|>[{"read": {"path": "notes.txt"}}, {"ls": {"path": "."}}]<|tools_suffix|>', (READ, LS)),
    Case("apertus, thought", "<|inner_prefix|>Hm.<|inner_suffix|>It is 4.<|assistant_end|>", text="It is 4.", thinking="Hm."),
    Case("minimax m2", '<minimax:tool_call>\n<invoke name="read">\n<parameter name="path">notes.txt</parameter>\n</invoke>\n'
        "</minimax:tool_call>", (READ,)),
    Case("harmony, collapsed", 'analysisI need it.assistantcommentary to=functions.read json{"path": "notes.txt"}', (READ,),
        thinking="I need it."),
    Case("harmony, collapsed answer", "analysisSimple.assistantfinalIt is 4.", text="It is 4.", thinking="Simple."),
    Case("solar", '<|tool_calls|><|tool_call:begin|>a1b2<|tool_call:name|>read<|tool_call:args|>{"path": "notes.txt"}'
        "<|tool_call:end|>", (READ,)),
    Case("unknown marks", '<|call_start|>read<|call_args|>path=notes.txt<|call_end|>', problem="read was not run"),
    Case("an unknown tag", '<do_tool id="read"><path>notes.txt</path></do_tool>', problem="read was not run"),
    Case("glm, a value with its mark",
        f"<tool_call>shell<arg_key>command</arg_key><arg_value>echo </arg_value>{GLM_END}",
        problem="not clear where command ends"),
    Case("glm, no tool_call, name on its line",
        f"I look.\nshell\n<arg_key>command</arg_key>\n<arg_value>{GLM_END}", (ECHO,), text="I look."),
    Case("glm, no name", f"<arg_key>command</arg_key>\n<arg_value>{GLM_END}", problem="it names no known tool"),
    Case("gemma 4, in its namespace", gemma(f"default_api:read{{path:{Q}notes.txt{Q}}}"), (READ,)),
    Case("kimi k3, no first mark", K3_HELLO.removeprefix("<|open|>"),
        text=K3_HELLO.removeprefix("<|open|>").removesuffix("<|close|>call<|sep|>"), problem="write was not run"),
    Case("kimi k2, marks around nothing", "It is 4.<|tool_calls_section_begin|><|tool_calls_section_end|>", text="It is 4."),
    Case("kimi k2, an end alone", "It is 4.<|tool_calls_section_end|>", text="It is 4."),
    Case("step 3", '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="read">'
        '<steptml:parameter name="path">notes.txt</steptml:parameter></steptml:invoke><｜tool_call_end｜>'
        "<｜tool_calls_end｜>", (READ,)),
    Case("solar, turns", "<|think|>Hm.<|end|><|begin|>assistant<|content|>It is 4.<|flush|>", text="It is 4.", thinking="Hm."),
    Case("qwen", '✿FUNCTION✿: read\n✿ARGS✿: {"path": "notes.txt"}', (READ,)),
    Case("qwen, result", '✿FUNCTION✿: read\n✿ARGS✿: {"path": "notes.txt"}\n✿RESULT✿: x', (READ,), is_over=True),
    Case("harmony, marks of its header only",
        'commentary to=functions.read <|constrain|>json<|message|>{"path": "notes.txt"}<|call|>', (READ,)),
    Case("harmony, recipient alone", 'to=functions.read code<|message|>{"path": "notes.txt"}', (READ,)),
    Case("marks in entities", f"&lt;tool_call&gt;{J_READ}&lt;/tool_call&gt;", (READ,)),
    Case("JSON in entities", tagged(J_READ.replace('"', "&quot;")), problem="read was not run"),
    Case("a mark behind a name", 'read {"path" "x"}</tool_call>', problem="read was not run"),
    Case("entities in words", "Use &lt;b&gt; for <b>, &amp; for &. A &lt;tool_call&gt; begins a call."),
    Case("a name on its line", "read\n\nto=me and to read: assistant to do it; ✿ read ✿"),
    Case("a level of a log", "[INFO] read: done\n[WARNING] write(a) failed"),
    Case("a tag and a name", "<function> is no tag. Use read: it reads."),
    Case("call me", "call: read the file"),
    Case("words about marks", "The mark `<|tool_call>` begins a call of read; <|x|> does not."),
    Case("marks in a fence", "It printed this:\n```\n<|call_start|>read<|call_end|>\n```\nThat is no call of read."),
    Case("analysis is a word", "analysis of read: it reads."),
)  # fmt: skip

CASES = (
    *FAMILIES,
    *HERMES, *QWEN_CODER, *OTHER_TAGS, *BRACKETS, *HARMONY, *JSON, *REFUSED, *PYTHON, *THINKING, *TURNS, *EXAMPLES, *SCHEMA,
)  # fmt: skip
