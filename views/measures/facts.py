"""What is to be known about a measure's states and cannot be seen by binding it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """What docs/measures.md says of a measure, kept beside the code that keeps its states.

    `merge` is what it costs to unite two states, `inverse` whether the state of some of the events can be taken out of the
    state of all, `source` where the formula comes from, and `varying` how many bytes the columns take whose type has no width.
    A measure that keeps other states of doubles has their facts in `facts_of_doubles`.
    """

    merge: str
    inverse: str
    source: str
    varying: str = ""
