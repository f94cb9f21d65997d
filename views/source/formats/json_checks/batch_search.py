"""A search in all JSON values of a batch for what msgspec would not read as this platform does.

Arrow's RE2 searches five times as fast as Python's `re`, and needs no call for each value.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

MAX_DEPTH = 128

Search = Callable[[pa.Array], pa.Array]
"""From binary values to a boolean for each: whether it has to be looked at by itself."""

_TOO_DEEP = rf"(?:[\[{{][^\[{{]*){{{MAX_DEPTH + 1}}}"
_ESCAPED_CHARACTER = r"\\u"
_FEW = 64
_KEYS_OF_A_SEARCH = 3
"""With more keys, values that order them at random are slow: RE2 has a state for each set of keys that it has seen."""


def searches(pattern: str) -> Search:
    """The search for a regular expression of bytes."""
    return lambda values: pc.match_substring_regex(values, pattern)


def strict_searches(keys: Iterable[str], patterns: Sequence[str], *, colons: int) -> Search:
    """The search for these patterns, and for what strict JSON refuses or reads with care.

    That is a value that is nested too deep, that writes a character as an escape or one of `keys` twice. Keys are searched only
    if a value has more than `colons`, the least number in a value that is accepted: with no more, none is written twice.
    """
    pattern = "|".join([*patterns, _ESCAPED_CHARACTER, _TOO_DEEP])
    twice = [_twice(key) for key in sorted(keys)]
    repeated = ["|".join(twice[start : start + _KEYS_OF_A_SEARCH]) for start in range(0, len(twice), _KEYS_OF_A_SEARCH)]

    def search(values: pa.Array) -> pa.Array:
        marked = pc.match_substring_regex(values, pattern)
        # Values of a batch are alike: a few show whether it is worth counting the colons of all.
        if not repeated or not (has_more(values[:_FEW]) or has_more(values)):
            return marked
        return reduce(pc.or_, (pc.match_substring_regex(values, each) for each in repeated), marked)

    def has_more(values: pa.Array) -> bool:
        return bool((pc.max(pc.count_substring(values, ":")).as_py() or 0) > colons)

    return search


def _twice(key: str) -> str:
    written = re.escape(f'"{key}"')
    return f"{written}(?s:.*){written}"
