"""How the rows of a version meet a condition that their view expects. It loads no engine: readers of audits start fast."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tandem.views.counted import counted

Severity = Literal["stop", "warn"]
"""What a row that does not meet a condition does: it stops the publication, or is only reported."""


@dataclass(frozen=True)
class ConditionResult:
    """A condition over the rows of a version: how many rows it was checked for, how many do not meet it, and the worst of those.

    `rows` is None for a condition over the number of rows, which is met or not.
    Each of the `worst` has the `row`'s keys and window, the `values` that the condition reads, as in JSON, and `far`: how far
    it is from meeting the condition, None unless that compares numbers.
    """

    condition: str
    severity: Severity
    rows: int | None = 0
    unmet: int = 0
    worst: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)

    @property
    def stops(self) -> bool:
        """Whether it stops a publication."""
        return self.severity == "stop" and self.unmet > 0

    @property
    def sentence(self) -> str:
        """How many rows do not meet the condition, for a person."""
        if self.rows is None:
            return f"{self.condition!r} {'does not hold' if self.unmet else 'holds'}"
        return f"{self.unmet} of {counted(self.rows, 'row')} {'does' if self.unmet == 1 else 'do'} not meet {self.condition!r}"
