"""Why a statement has no result."""

from collections.abc import Mapping
from typing import Final, Literal

from tandem.views.errors import TandemError

Reason = Literal["statement", "view", "limit", "failed"]
"""The kind of a refusal.

statement: it is not one SELECT that DuckDB can run. view: it names an unknown view. limit: it exceeds a limit. failed: what it
needs could not be read or started, which is not a fault of the statement.
"""


CODES: Final[Mapping[Reason, str]] = {
    "statement": "statement-invalid",
    "view": "view-unknown",
    "limit": "statement-over-limit",
    "failed": "statement-failed",
}


class StatementRefused(TandemError, code="statement-failed"):
    """A statement without a result: one sentence, and the kind of its reason."""

    def __init__(self, sentence: str, reason: Reason) -> None:
        super().__init__(sentence, code=CODES[reason])
        self.reason: Reason = reason
