"""What became of records that were appended to the log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Appended:
    """All replicas hold the record, at this place of its topic; no offset where the broker knows only that it has it already."""

    partition: int
    offset: int | None


@dataclass(frozen=True)
class NotAppended:
    """No acknowledgement came; `sure` where the record is not in the log, else it may be there or not. Kafka's words on it."""

    why: str
    sure: bool


Outcome = Appended | NotAppended
Told = Callable[[Sequence[Outcome]], object]
