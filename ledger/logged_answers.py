"""A line of the log of answers: what a server answered for one key and window, and up to which positions it counted events."""

import json
from typing import Any

import msgspec

from tandem.views.errors import TandemError


class LoggedAnswer(msgspec.Struct, frozen=True):
    """The answer for one key and window.

    Args:
        at: the time of the answer, by the server's clock.
        key: the values of the view's keys, as JSON has them.
        window: the start of the row's window; None for a window without bounds.
        row: the measures in the answer, as JSON has them; None if nothing was counted.
        live: false if the release was asked before its promotion.
        positions: by source, the positions below which events were counted.
        kept_from: the start of the first window that had stayed, of a view that keeps some.
    """

    at: str
    view: str
    key: dict[str, Any]
    window: str | None
    row: dict[str, Any] | None
    layer: str
    publication: int
    release: int
    live: bool
    fingerprint: str
    positions: dict[str, dict[str, dict[str, int]]]
    kept_from: str | None = None

    def line(self) -> str:
        """The line, without its end."""
        try:
            return msgspec.json.encode(self, enc_hook=str).decode()
        except UnicodeEncodeError:  # half of a surrogate pair, whose escape the file gets
            return json.dumps(msgspec.structs.asdict(self), default=str)


def parse_answer(line: str | bytes, place: str) -> LoggedAnswer:
    """The answer of a line. Raises TandemError, which names the place."""
    try:
        return msgspec.json.decode(line, type=LoggedAnswer)
    except msgspec.MsgspecError as error:
        raise TandemError(
            f"{place} is not a line that a server logs with serving.log_answers: {error}", code="file-unusable"
        ) from error
