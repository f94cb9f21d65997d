"""Values in files of Java properties, which Java reads as Latin-1 with escapes."""

from typing import Final

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


def escape(value: str) -> str:
    """The value with escapes for backslashes, control characters, and all that is not ASCII; it must not begin with a space."""
    utf16 = (value.translate(_ESCAPES)).encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(utf16[at : at + 2], "big") for at in range(0, len(utf16), 2))
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in units)
