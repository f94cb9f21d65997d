"""Why a statement has no result."""

from typing import Literal

from tandem.views.errors import TandemError

Reason = Literal["statement", "view", "limit", "failed"]
"""The kind of a refusal.

statement: it is not one SELECT that DuckDB can run. view: it names an unknown view. limit: it exceeds a limit. failed: what it
needs could not be read or started, which is not a fault of the statement.
"""


class Refused(TandemError):
    """A statement without a result: one sentence, and the kind of its reason."""

    def __init__(self, sentence: str, reason: Reason) -> None:
        super().__init__(sentence)
        self.reason: Reason = reason
