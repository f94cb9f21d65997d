"""The token from which a reader of changes continues later.

It names a position over one batch view. From it, any process gets exactly the rows that have changed since, each in its current
state. A token of answers with hot commits continues only while some hot commits have exactly the events that those counted: until
the hot tail merges them with later ones or starts again, or commits take their place. Commits of the same range may count another
duplicate, or never come, so they do not say which rows the reader has. The process that sent a reader its last changes still has
them for a while (serving/memory/cached_view.py): there the reader continues from any token.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, replace
from typing import Final

from tandem.ledger.log.positions import Position
from tandem.serving.memory.cached_view import CachedView
from tandem.views.errors import TandemError

NO_WATERMARK: Final = -(2**63)
"""A token's number for a watermark before every event."""


class TokenGone(TandemError, code="token-expired"):
    """A token that has expired; `scan` again, and continue from the token of that snapshot."""


@dataclass(frozen=True)
class ChangesToken:
    """A reader's position in a view's changes: what its answers counted.

    `end` is where commits end; `hot` the epoch and the end of hot commits that continue them and have states of the view.
    `watermark` is the watermark of the final rows that an append-only reader has, in microseconds since 1970; `NO_WATERMARK`
    before every event, None of other readers.
    """

    release: int
    fingerprint: str
    version: int
    cut: Position
    end: Position
    hot: tuple[int, Position] | None = None
    watermark: int | None = None

    def __str__(self) -> str:
        document = [self.release, self.fingerprint, self.version, self.cut.to_json(), self.end.to_json()]
        document += [] if self.hot is None else [self.hot[0], self.hot[1].to_json()]
        document += [] if self.watermark is None else [self.watermark]
        return urlsafe_b64encode(json.dumps(document, separators=(",", ":")).encode()).decode()

    @property
    def position(self) -> Position:
        """Up to where it counts the log, with hot commits."""
        return self.end if self.hot is None else self.hot[1]

    @classmethod
    def parse(cls, text: str) -> "ChangesToken":
        """Inverse of `str`. Raises TandemError for a text that is not a token."""
        try:
            release, fingerprint, version, cut, end, *hot = json.loads(urlsafe_b64decode(text.encode()))
            watermark = int(hot.pop()) if len(hot) % 2 else None
            known = cls(int(release), str(fingerprint), int(version), Position.from_json(cut), Position.from_json(end))
            if not hot:
                return replace(known, watermark=watermark)
            epoch, reached = hot
            return replace(known, hot=(int(epoch), Position.from_json(reached)), watermark=watermark)
        except (ValueError, TypeError, AttributeError, TandemError) as error:
            raise TandemError(f"invalid token {text!r}; use ViewAt.token or Changes.token") from error


def token_of(held: CachedView) -> ChangesToken:
    """The token of a reader that knows the cached view."""
    hot = (held.hot_commits[0].epoch, held.end) if held.hot else None
    return ChangesToken(held.release, held.batch.fingerprint, held.batch.version, held.cut, held.committed, hot)


def watermark_number(watermark: int | None) -> int:
    """A watermark as tokens have it."""
    return NO_WATERMARK if watermark is None else watermark
