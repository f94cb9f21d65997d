"""The faults of a campaign, drawn so that every kind has an even share."""

import random
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

How = Literal["kill", "freeze", "twice", "disk", "clock"]


class Fault(NamedTuple):
    """One kind of fault, as the result counts it: how, and of what.

    `kill` is SIGKILL, `freeze` is SIGSTOP and, 1 to 20 seconds later, SIGCONT. `twice` starts two at once. `disk` is a full disk,
    `clock` a step of the clock that every process reads.
    """

    how: How
    what: str

    def __str__(self) -> str:
        return f"{self.how} {self.what}"


PARTS: Final = ("broker", "speed", "speed's JVM", "speed's worker", "serve", "serve's hot tail")
"""Processes that the supervisor keeps running, and those of the speed layer and the server that it does not know."""
COMMANDS: Final = ("archive", "recompute", "apply", "promote", "rollback", "maintain")
TWICE: Final = ("up", "speed", "serve", *COMMANDS)
ALWAYS: Final = (
    *(Fault("kill", what) for what in (*PARTS, *COMMANDS)),
    *(Fault("freeze", what) for what in (*PARTS, *COMMANDS)),
    *(Fault("twice", what) for what in TWICE),
)
FULL_DISK: Final = Fault("disk", "full")
CLOCK: Final = (Fault("clock", "forward"), Fault("clock", "back"))


def drawn(kinds: Sequence[Fault], random_: random.Random) -> Iterator[Fault]:
    """Kinds without end, in random order: at any time each was drawn as often as any other, or once more."""
    while True:
        yield from random_.sample(kinds, len(kinds))
