"""A record as a producer sends it and a consumer receives it."""

from dataclasses import dataclass
from typing import Final

MOST_BYTES: Final = 1_000_000
"""The most bytes of a record that Kafka's brokers accept by default, less those that Kafka adds."""


@dataclass(frozen=True)
class Record:
    """A record for a producer: `milliseconds` since 1970 are its timestamp; a header's value may be None."""

    milliseconds: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
