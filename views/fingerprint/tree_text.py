"""A syntax tree as text that every Python from 3.11 on writes alike.

`ast.dump` does not: versions add fields, omit empty ones, and keep or drop the empty pieces of an f-string. Here a node is its
name and those of its fields that hold something, sorted by name: a field that a later version adds, and that code of an earlier
one leaves empty, changes nothing. Imports the standard library only, so that any interpreter can run this file alone.
"""

import ast
from typing import Any, Final

_OMITTED: Final = frozenset({"ctx", "kind", "type_comment"})
"""Where a name stands tells whether it is read or bound; `u"a"` is `"a"`; a comment does nothing."""


def text(node: Any) -> str:
    """A tree, a list of trees or a name in one line of ASCII, without positions: `BinOp(left=Name(id='a'),op=Add(),...)`."""
    if isinstance(node, ast.JoinedStr):
        return _joined(node)
    if isinstance(node, ast.Constant | ast.MatchSingleton):
        return f"Constant({_literal(node.value)})"
    if isinstance(node, ast.AST):
        written = []
        for name in sorted(node._fields):
            child = getattr(node, name, None)
            if name not in _OMITTED and not _is_empty(child, name):
                written.append(f"{name}={text(child)}")
        return f"{type(node).__name__}({','.join(written)})"
    if isinstance(node, list):
        written = []
        for child in node:
            # No comprehension, which would take one more frame at each level of deep trees.
            written.append("-" if child is None else text(child))
        return f"[{','.join(written)}]"
    return _literal(node)


def _is_empty(child: Any, name: str) -> bool:
    # Without a format and with an empty one, an f-string's value is formatted alike.
    return child is None or child == [] or (name == "format_spec" and not _pieces(child))


def _literal(value: Any) -> str:
    """A constant with its type, since 1, 1.0 and True are equal, in digits that depend on no version or setting."""
    match value:
        case bool():
            return str(value)
        case int():
            return f"int {value:#x}"  # the interpreter limits how many decimal digits it writes
        case float():
            return f"float {value.hex()}"
        case complex():
            return f"complex {value.real.hex()} {value.imag.hex()}"
        case _:  # str, bytes, None, Ellipsis
            return ascii(value)  # repr escapes what the version's Unicode tables call unprintable


def _joined(node: ast.JoinedStr) -> str:
    """An f-string; one without values is the text that it is."""
    pieces = _pieces(node)
    if all(isinstance(piece, str) for piece in pieces):
        return f"Constant({''.join(pieces)!a})"
    return f"JoinedStr({text(pieces)})"


def _pieces(node: ast.JoinedStr) -> list[Any]:
    """The texts and the formatted values of an f-string, or of a format in it: neighbouring texts are one, no text is empty."""
    pieces: list[Any] = []
    for piece in node.values:
        if not isinstance(piece, ast.Constant):
            pieces.append(piece)
        elif pieces and isinstance(pieces[-1], str):
            pieces[-1] += str(piece.value)
        elif piece.value:
            pieces.append(str(piece.value))
    return pieces
