"""The token that each sink stores in its target, in one step with the rows that it is of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stamp:
    """What is stored with each step of a sink: `text`, the token with the rows that it is of; and where the rows come from."""

    text: str
    publication: int
