"""What a bare `assert` in a check would have said: Python names no values, and without them a small model guesses again."""

from __future__ import annotations

import ast
import re
import shlex

_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
_EXPANDED = re.compile(r"[$`]")  # the shell would change the code, so it is not the one that would be read here


def with_values(command: str) -> str:
    """Return a command `python -c CODE` whose bare asserts say what they compared; an empty text for any other command."""
    try:
        words = shlex.split(command)
        is_one = len(words) == 3 and _PYTHON.fullmatch(words[0]) and words[1] == "-c"
        tree = ast.parse(words[2]) if is_one and not _EXPANDED.search(command) else None
        if tree is None or not any(isinstance(each, ast.Assert) and each.msg is None for each in ast.walk(tree)):
            return ""
        return shlex.join([words[0], "-c", ast.unparse(ast.fix_missing_locations(_Asserts().visit(tree)))])
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two: too deeply nested
        return ""


class _Asserts(ast.NodeTransformer):
    """Gives a message to each assert that has none."""

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        if node.msg is not None:
            return [node]
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            return [each for part in node.test.values for each in self.visit_Assert(ast.Assert(part))]
        test: ast.expr
        match node.test:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                parts: list[ast.stmt] = [_assigned("_left", left), _assigned("_right", right)]
                test = ast.Compare(_named("_left"), [operator], [_named("_right")])
                text = "%s: the left side is %r, the right side is %r"
                values: list[ast.expr] = [ast.Constant(ast.unparse(node.test)), _named("_left"), _named("_right")]
            case other:
                parts, test, text = [_assigned("_left", other)], _named("_left"), "%s is %r"
                values = [ast.Constant(ast.unparse(node.test)), _named("_left")]
        message = ast.BinOp(ast.Constant(text), ast.Mod(), ast.Tuple(values, ast.Load()))
        return [*parts, ast.Assert(test, message)]


def _assigned(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _named(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())
