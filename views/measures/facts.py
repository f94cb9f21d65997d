"""Facts about a measure's states that its binding does not have."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """What docs/measures.md says of a measure, kept beside its code.

    * `merge`: the cost of merging two states.
    * `inverse`: whether the state of some events can be subtracted from the state of all.
    * `source`: where the formula comes from.
    * `varying`: the bytes of columns whose type has no fixed width.

    A measure whose states differ for doubles has the facts of those in `facts_of_doubles`.
    """

    merge: str
    inverse: str
    source: str
    varying: str = ""
