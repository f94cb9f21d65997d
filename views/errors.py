"""What can go wrong in a way that its reader can put right.

    TandemError                one clear sentence for the user
    └── DefinitionError        a source, view or project that cannot mean anything

Each message carries the value, its place and what would be valid. The command line prints the sentence and exits 1.
"""

from collections.abc import Iterable
from difflib import SequenceMatcher


class TandemError(Exception):
    """One clear sentence for the user: the value, the place, and what would be valid."""


class DefinitionError(TandemError):
    """A definition that cannot be used: a wrong field, type, name or expression."""


def said_by(error: BaseException) -> str:
    """The exception's type, and its message if it has one to give: a project's own may raise when it is asked."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  whatever it is, there is no message
        return type(error).__name__


def nearest_first(value: str, valid: Iterable[str]) -> list[str]:
    """Order the valid names so that the likeliest meant one stands first; equally near ones keep their order."""

    def distance(name: str) -> float:
        return -SequenceMatcher(None, value.casefold(), name.casefold()).ratio()

    return sorted(valid, key=distance)


def listed(value: str, valid: Iterable[str], *, limit: int = 12) -> str:
    """Write the valid names as a sentence's end, nearest to `value` first, `none` if there are none."""
    names = nearest_first(value, valid)
    more = f", ... ({len(names) - limit} more)" if len(names) > limit else ""
    return (", ".join(names[:limit]) or "none") + more
