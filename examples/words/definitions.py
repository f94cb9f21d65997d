"""Word count: lines of text, split into words by `prepare`, and counted over the last 30 seconds every 10 seconds."""

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from tandem import Event, Source, View, all_time, approx_count_distinct, count, hopping, maximum, mean, tumbling


class Line(Event):
    """One line of a text."""

    line_id: str
    time: datetime
    text: str


WHITESPACE = r"[\s\v\x1c-\x1f\x{85}\pZ]+"
"""White space as in str.split. Not utf8_split_whitespace, which sometimes returns a single space as a word (pyarrow 26)."""


def words(lines: pa.Table) -> pa.Table:
    """One row for each word of each line, in lower case; a line without words has none."""
    split = pc.split_pattern_regex(pc.utf8_lower(lines["text"].combine_chunks()), WHITESPACE)
    found = lines.take(pc.list_parent_indices(split)).append_column("word", pc.list_flatten(split))
    return found.filter(pc.not_equal(found["word"], ""))


lines = Source(topic="lines", event=Line, event_time="time", identity=("line_id",), prepare=words)

word_counts = View(
    source=lines,
    keys={"word": "word"},
    window=hopping(timedelta(seconds=30), every=timedelta(seconds=10)),
    measures={"times": count()},
)

lengths = View(
    source=lines,
    keys={"letters": "length(word)"},
    window=tumbling(minutes=1),
    measures={"words": count(), "different": approx_count_distinct("word")},
)

totals = View(
    source=lines,
    window=all_time(),
    measures={
        "words": count(),
        "different": approx_count_distinct("word"),
        "mean_length": mean("length(word)"),
        "last": maximum("word"),
    },
)

SOURCES = (lines,)
VIEWS = (word_counts, lengths, totals)
