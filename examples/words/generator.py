"""Sample lines of text, and the expected answers of every view of this example.

`generate` yields samples (key, value, facts): a record's key (none here) and value, and the facts of a well-formed record,
None for a malformed one. `Truth` sums up facts in plain Python and imports nothing of the platform.
"""

import json
import re
from collections import Counter, deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from examples.traffic import MINUTE, SECOND, broken, event_times, zipf
from examples.truth import EPOCH, bounds, written_time

SOURCE = "lines"

WORDS = ("the", "The", "of", "Été", "straße", "don't", '"quoted"', "日本", *(f"word{number}" for number in range(400)))
SPACES = (" ", " ", " ", "  ", "\t", "\u00a0", "\u2003")
MOST_WORDS = 12

SIZE, EVERY = 30 * SECOND, 10 * SECOND
RECENT = 500


class Line(NamedTuple):
    """The facts of one well-formed record. A copy repeats an identity that was sent before, and does not count."""

    at: int
    text: str
    copy: bool = False


Sample = tuple[bytes | None, bytes, Line | None]

# Each takes a good value and breaks it in its own way.
BREAKS = (
    lambda _: b"",
    lambda _: b"the of the",
    lambda good: good[:-1],
    lambda good: good + good,
    lambda good: b"[" + good + b"]",
    lambda good: good.replace(b'"text":"', b'"text":"\xff'),
    lambda good: good.replace(b'"text"', b'"line"'),
    lambda good: re.sub(rb'"text":.*}', b'"text":null}', good),
    lambda good: re.sub(rb'"text":.*}', b'"text":["the"]}', good),
    lambda good: good.replace(b'Z","text"', b'","text"'),
    lambda good: re.sub(rb'"time":"[0-9]{4}', b'"time":"1969', good),
    lambda good: re.sub(rb'"line_id":"[^"]+"', b'"line_id":17', good),
)


def generate(seed: int, n: int, *, base: datetime, per_second: float = 20.0, duplicates: float = 0.0) -> Iterator[Sample]:
    """The first `n` samples of `seed`: the same ones for the same seed, base and shares, whatever `n` is.

    `base` is the first event time and `per_second` the mean number of events in a second of event time. `duplicates` is the
    share of records that repeat one of the 500 before them, with the same identity and event time.
    """
    if base.tzinfo is None:
        raise ValueError(f"base {base} has no time zone")
    times = event_times(Random(f"{seed} times"), (base - EPOCH) // timedelta(microseconds=1), per_second)
    words = zipf(Random(f"{seed} words"), WORDS)
    breaks = broken(Random(f"{seed} breaks"), len(BREAKS))
    layout = Random(f"{seed} lines")
    repeat = Random(f"{seed} repeats")
    recent: deque[tuple[bytes, Line]] = deque(maxlen=RECENT)
    for i in range(n):
        if duplicates and recent and repeat.random() < duplicates:
            value, facts = repeat.choice(recent)
            yield None, value, facts._replace(copy=True)
            continue
        at = next(times)
        # A line may be empty, and begin or end with space.
        text = "".join(layout.choice(SPACES) + next(words) for _ in range(layout.randrange(MOST_WORDS)))
        text = text.lstrip() if layout.random() < 0.9 else text + " "
        value = f'{{"line_id":"{seed:x}-{i}","time":"{written_time(at)}","text":{json.dumps(text, ensure_ascii=False)}}}'.encode()
        kind = next(breaks)
        if kind is not None:
            yield None, BREAKS[kind](value), None
            continue
        facts = Line(at, text)
        if duplicates:
            recent.append((value, facts))
        yield None, value, facts


class Truth:
    """The expected answers of every view of this example for the facts added so far."""

    def __init__(self) -> None:
        self._hops: Counter[tuple[int, str]] = Counter()
        self._lengths: Counter[tuple[int, int]] = Counter()
        self._words: Counter[str] = Counter()

    def add(self, facts: Line) -> None:
        """Count one well-formed record, unless it is a copy."""
        if facts.copy:
            return
        last = facts.at // EVERY
        for word in facts.text.lower().split():
            self._hops.update((hop, word) for hop in range(last - SIZE // EVERY + 1, last + 1))
            self._lengths[facts.at // MINUTE, len(word)] += 1
            self._words[word] += 1

    def manifest(self) -> dict[str, list[dict[str, Any]]]:
        """The rows by view name as `tandem query --json` prints them: exact measures only, in any order."""
        words = self._words.total()
        letters = sum(len(word) * times for word, times in self._words.items())
        total = {"window_start": None, "window_end": None, "words": words}
        return {
            "word_counts": [
                {"word": word, **bounds(hop * EVERY, hop * EVERY + SIZE), "times": times}
                for (hop, word), times in self._hops.items()
            ],
            "lengths": [
                {"letters": letters, **bounds(minute * MINUTE, (minute + 1) * MINUTE), "words": words}
                for (minute, letters), words in self._lengths.items()
            ],
            "totals": [total | {"mean_length": letters / words, "last": max(self._words)}] if words else [],
        }
