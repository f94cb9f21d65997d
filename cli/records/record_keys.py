"""Records with the keys of their source."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from tandem.views.project.partition_key import record_keys
from tandem.views.source.source import Source

PIECE: Final = 1000
"""The number of keys that are computed at once: fewer would cost as much."""

Sample = tuple[bytes | None, bytes, Any]


def keyed(source: Source, samples: Iterable[Sample]) -> Iterator[Sample]:
    """Samples of key, value and facts with the source's keys in place of their own; unchanged if the source has no key.

    A batch of samples is read ahead.
    """
    if source.key is None:
        yield from samples
        return
    remaining = iter(samples)
    while piece := list(islice(remaining, PIECE)):
        keys = record_keys(source, [value for _, value, _ in piece])
        yield from ((key, value, facts) for key, (_, value, facts) in zip(keys, piece, strict=True))
