"""Errors that the user can fix.

    TandemError                one clear sentence for the user
    └── DefinitionError        a source, view or project that cannot mean anything
    KeyboardInterrupt
    └── TooLong                a server interrupted code of the project

Each message has the value, its place and what would be valid. The command line prints the sentence and exits 1. With `--json` it
also prints the code, and HTTP's problem documents have it.
"""

from collections.abc import Iterable
from difflib import SequenceMatcher


class TandemError(Exception):
    """One clear sentence for the user: the value, the place, and what would be valid.

    `code` is a stable name of the kind of error, for programs: sentences may change, codes do not (docs/errors.md). Each subclass
    has its own. A raise with another `code` distinguishes outcomes of one class.
    """

    code: str = "failed"

    def __init_subclass__(cls, *, code: str = "") -> None:
        super().__init_subclass__()
        if code:
            cls.code = code

    def __init__(self, *args: object, code: str = "") -> None:
        super().__init__(*args)
        if code:
            self.code = code


class DefinitionError(TandemError, code="definition-invalid"):
    """A definition that cannot be used: a wrong field, type, name or expression."""


class TooLong(KeyboardInterrupt):
    """Raised in a thread to end a call of project code, which catches neither this nor Ctrl-C by `except Exception`."""

    def __str__(self) -> str:
        return "took more than half of serving.timeout_s and was interrupted"


def said_by(error: BaseException) -> str:
    """The exception's type and message. Only the type if making the message raises, as a project's own exception may."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  whatever it is, there is no message
        return type(error).__name__


def nearest_first(value: str, valid: Iterable[str]) -> list[str]:
    """Order the valid names, the most similar first; equally similar ones keep their order."""

    def distance(name: str) -> float:
        return -SequenceMatcher(None, value.casefold(), name.casefold()).ratio()

    return sorted(valid, key=distance)


def listed(value: str, valid: Iterable[str], *, limit: int = 12) -> str:
    """The valid names as the end of a sentence, the most similar to `value` first; `none` if there are none."""
    names = nearest_first(value, valid)
    more = f", ... ({len(names) - limit} more)" if len(names) > limit else ""
    return (", ".join(names[:limit]) or "none") + more
