"""Records with the keys of their source."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from tandem.views.project.partition_key import record_keys
from tandem.views.source.source import Source

PIECE: Final = 1000
"""The number of keys that are computed at once: fewer would cost as much."""

Sample = tuple[bytes | None, bytes, Any]
SourceSample = tuple[bytes | None, bytes, Any, str]
"""Key, value and facts, and the source to which they belong."""


def keyed(sources: Mapping[str, Source], samples: Iterable[SourceSample]) -> Iterator[SourceSample]:
    """Samples with their source's keys in place of their own; unchanged if the source has no key.

    If a source has a key, a batch of samples is read ahead.
    """
    keys_of = {name: source for name, source in sources.items() if source.key is not None}
    if not keys_of:
        yield from samples
        return
    remaining = iter(samples)
    while piece := list(islice(remaining, PIECE)):
        keys = {
            name: iter(record_keys(source, [value for _, value, _, of in piece if of == name]))
            for name, source in keys_of.items()
        }
        for key, value, facts, of in piece:
            yield (next(keys[of]) if of in keys else key), value, facts, of
