"""Measures, windows and decoders as text: the call by which a definition makes them."""

from datetime import timedelta
from typing import Any, Final

_UNITS: Final = {
    "days": timedelta(days=1),
    "hours": timedelta(hours=1),
    "minutes": timedelta(minutes=1),
}


def call(name: str, *arguments: Any, **options: Any) -> str:
    """A call in Python: `call("total", "bytes")` is 'total("bytes")'. Options that are None or False are left out."""
    given = [literal(value) for value in arguments]
    given += [f"{option}={literal(value)}" for option, value in options.items() if value is not None and value is not False]
    return f"{name}({', '.join(given)})"


def literal(value: Any) -> str:
    """A value as Python source; texts are in double quotes unless they contain some."""
    if isinstance(value, timedelta):
        return call("timedelta", **span(value))
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(name)}: {literal(of)}' for name, of in value.items())}}}"
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


def span(time: timedelta, *, longest: str = "days") -> dict[str, float]:
    """A length of time as a whole number of the largest possible unit, which is `longest` or a smaller one."""
    units = list(_UNITS)
    for unit in units[units.index(longest) :]:
        if not time % _UNITS[unit]:
            return {unit: time // _UNITS[unit]}
    seconds = time.total_seconds()
    return {"seconds": int(seconds) if seconds.is_integer() else seconds}
