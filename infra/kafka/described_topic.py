"""A topic as the broker describes it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    """A topic as it is now: a recreated topic has the same name and another id."""

    name: str
    id: str
    partitions: int
