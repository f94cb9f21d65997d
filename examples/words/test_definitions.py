"""The word count's definitions on lines few enough to count by hand; runs without Java or Kafka."""

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from definitions import WHITESPACE, Line, lengths, totals, word_counts

from tandem.testing import answer


def line(number: int, text: str, *, second: int = 0) -> Line:
    return Line(line_id=f"l{number}", time=datetime(2026, 11, 1, 8, 0, second, tzinfo=UTC), text=text)


def test_words_are_counted_in_three_windows_each() -> None:
    rows = answer(word_counts, [line(1, "the cat and the dog", second=25), line(2, "The end", second=31)])
    assert [(row["window_start"][14:19], row["times"]) for row in rows if row["word"] == "the"] == [
        ("00:00", 2),
        ("00:10", 3),
        ("00:20", 3),
        ("00:30", 1),
    ]


def test_a_line_told_twice_and_a_line_without_words_count_nothing() -> None:
    lines = [line(1, "a bc"), line(1, "a bc"), line(2, ""), line(3, " \t ")]
    assert {row["letters"]: (row["words"], row["different"]) for row in answer(lengths, lines)} == {1: (1, 1), 2: (1, 1)}


def test_any_whitespace_parts_words_however_many_lines_there_are() -> None:
    texts = ["", " ", "\u2003", "\xa0", "the\u2003\u00c9t\u00e9", "\x1ca\x85b\u3000", "\tthe x "] * 300
    split = pc.split_pattern_regex(pa.array(texts), WHITESPACE).to_pylist()
    assert [[word for word in words if word] for words in split] == [text.split() for text in texts]


def test_totals_are_of_words() -> None:
    (row,) = answer(totals, [line(1, "a bc"), line(2, "bc")])
    assert (row["words"], row["different"], row["mean_length"], row["last"]) == (3, 2, 5 / 3, "bc")
