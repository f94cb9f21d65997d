"""The lines of a file become values of records: one line, several, or a header and rows, which may go over several lines."""

import csv as rows
import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, View, count, csv, nginx_json
from tandem.cli.project.try_view import trial
from tandem.cli.records.bundles import BundledValue, Bundles, UnclosedQuote
from tandem.views.decode import parser
from tandem.views.decode.file import FileLayout, layout
from tandem.views.instant import APPEND_TIME


class Row(Event):
    at: datetime
    n: int


JSON = Source(topic="t", event=Row, event_time="at")
HEADER = replace(JSON, decoder=csv(header=True))
COLUMNS = replace(JSON, decoder=csv(columns=("at", "n")))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (JSON, FileLayout(False, 1)),
        (replace(JSON, max_events_per_record=3), FileLayout(False, 1)),
        (replace(JSON, decoder=nginx_json(), max_events_per_record=3), FileLayout(False, 3)),
        (replace(JSON, decoder=nginx_json(), max_events_per_record=3, key="n"), FileLayout(False, 1)),
        (COLUMNS, FileLayout(False, 1, b",")),
        (replace(COLUMNS, max_events_per_record=3), FileLayout(False, 3, b",")),
        (HEADER, FileLayout(True, 1, b",")),
        (replace(HEADER, max_events_per_record=3), FileLayout(True, 3, b",")),
        (replace(HEADER, max_events_per_record=3, key="n"), FileLayout(True, 1, b",")),
    ],
)
def test_the_layout_of_a_record_follows_the_format(source: Source, expected: FileLayout) -> None:
    assert layout(source) == expected


def values(source: Source, *lines: bytes) -> list[tuple[int, bytes]]:
    return [(one.line, one.value) for one in Bundles.of(source).values(lines)]


@pytest.mark.parametrize(
    ("source", "lines", "expected"),
    [
        (JSON, [b"a", b"", b"b"], [(1, b"a"), (2, b""), (3, b"b")]),
        (replace(COLUMNS, max_events_per_record=2), [b"a", b"", b"b", b"c"], [(1, b"a\nb"), (4, b"c")]),
        (HEADER, [b"h", b"a", b"", b"h", b"b"], [(2, b"h\na"), (5, b"h\nb")]),
        (replace(HEADER, max_events_per_record=2), [b"h", b"a", b"b", b"c"], [(2, b"h\na\nb"), (4, b"h\nc")]),
        (HEADER, [b"h"], []),
        (COLUMNS, [b'1,"a\r\n', b"\r\n", b'b"\r\n', b"2,c\r\n"], [(1, b'1,"a\r\n\r\nb"'), (4, b"2,c")]),
        (
            COLUMNS,
            [b'1,5" pipe\n', b'2,"a""\n', b'b"\n', b"\n", b"3"],
            [(1, b'1,5" pipe'), (2, b'2,"a""\nb"'), (4, b""), (5, b"3")],
        ),
        (COLUMNS, [b'1,"a" b\n', b"2,c\n"], [(1, b'1,"a" b'), (2, b"2,c")]),  # a reject, alone
        (COLUMNS, [b"1,a\r2,b\r3,c\r\r\n"], [(1, b"1,a\r"), (2, b"2,b\r"), (3, b"3,c\r")]),
        (HEADER, [b'\xef\xbb\xbf"a\n', b'b",c\n', b'1,"\n', b'"\n'], [(3, b'\xef\xbb\xbf"a\nb",c\n1,"\n"')]),
        (
            replace(HEADER, max_events_per_record=2),
            [b"h\n", b'"a\n', b"h\n", b'"\n', b"b\n", b"c"],
            [(2, b'h\n"a\nh\n"\nb'), (6, b"h\nc")],
        ),
        (JSON, [b'{"a\n', b'b"}\n'], [(1, b'{"a'), (2, b'b"}')]),
        (HEADER, [], []),
    ],
)
def test_lines_are_bundled(source: Source, lines: list[bytes], expected: Any) -> None:
    assert values(source, *lines) == expected


TEXTS = st.text(st.sampled_from("ab \",;|\t\n\ré'\ufeff"), max_size=8)
NAMES = ("a", "b", "c")


class Texts(Event):
    a: str
    b: str
    c: str


@given(
    written=st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=12),
    delimiter=st.sampled_from(",;|\t"),
    # Of line ends, Python's writer quotes those of its own.
    style=st.sampled_from(
        [("\n", rows.QUOTE_ALL), ("\r", rows.QUOTE_ALL), ("\r\n", rows.QUOTE_ALL), ("\r\n", rows.QUOTE_MINIMAL)]
    ),
    header=st.sampled_from(([], [NAMES])),
    most=st.sampled_from((None, 1, 3)),
)
def test_rows_that_a_csv_writer_wrote_are_read_back(
    written: list[tuple[str, ...]], delimiter: str, style: tuple[str, Any], header: list[tuple[str, ...]], most: int | None
) -> None:
    decoder = csv(columns=() if header else NAMES, delimiter=delimiter, header=bool(header))
    source = Source(topic="t", event=Texts, event_time=APPEND_TIME, decoder=decoder, max_events_per_record=most)
    # A row that begins with a byte order mark, unquoted, is no row for any reader of a file that begins there.
    written = [row for row in written if not row[0].startswith("\ufeff")]
    file = io.StringIO(newline="")
    rows.writer(file, delimiter=delimiter, lineterminator=style[0], quoting=style[1]).writerows([*header, *written])
    decode = parser(Texts, decoder, most)
    read: list[Any] = []
    for value in Bundles.of(source).values(io.BytesIO(file.getvalue().encode())):
        parsed = decode(value.value)
        read += parsed if most else [parsed]
    assert [(one.a, one.b, one.c) for one in read] == [row for row in written if not header or row != NAMES]


@pytest.mark.parametrize("source", [COLUMNS, HEADER, replace(HEADER, max_events_per_record=3)])
def test_a_quote_without_end_is_one_sentence_after_the_rows_before_it(source: Source) -> None:
    bundles, found = Bundles.of(source, "export.csv"), list[BundledValue]()
    with pytest.raises(
        UnclosedQuote, match=r"line 4 of export\.csv: a quoted text that begins in this row has no end in the file"
    ):
        found.extend(bundles.values([b"at,n\n", b'1,"a\n', b'b"\n', b'2,"c\n', b"3,d\n"]))


def test_a_quote_without_end_does_not_collect_the_file() -> None:
    bundles = Bundles.of(COLUMNS, "export.csv")
    line = b"1," + b"a" * 100_000 + b"\n"
    values = bundles.values(b'2,"b\n' if number == 1 else line for number in range(1 << 30))
    assert next(values).line == 1
    with pytest.raises(UnclosedQuote, match=r"line 2 of export\.csv: .* has no end within 16 MiB"):
        next(values)
    assert bundles.seen < 1000


def test_an_open_row_of_a_file_that_ended_is_a_value() -> None:
    bundles = Bundles.of(COLUMNS)
    assert [*bundles.add(b'1,"a\n'), *bundles.rest()] == []
    assert [(one.line, one.value) for one in (*bundles.cut_row(), *bundles.rest())] == [(1, b'1,"a')]
    bundles.end()


def test_a_record_stays_below_the_brokers_limit() -> None:
    lines = [b"x" * 200_000] * 5 + [b"y" * 900_000, b"z"]
    found = values(replace(COLUMNS, max_events_per_record=100), *lines)
    assert [(line, len(value)) for line, value in found] == [(1, 400_001), (3, 400_001), (5, 200_000), (6, 900_000), (7, 1)]


def test_try_reads_a_file_as_feed_sends_it() -> None:
    source = replace(HEADER, max_events_per_record=2)
    lines = [b"n,at", *(b"%d,2026-11-01T00:00:00Z" % n for n in range(5)), b"x,2026-11-01T00:00:00Z"]
    bundles = Bundles.of(source)
    tried = trial(View(source, measures={"n": count()}), bundles.values(lines), at=datetime(2026, 11, 1, tzinfo=UTC))
    assert (bundles.seen, tried.records, tried.decoded, tried.events) == (7, 3, 3, 5)
    assert tried.rejects.reasons == {"invalid_value": 1}
    (group,) = tried.rejects.groups.values()
    assert (group.line, group.index, group.detail, group.count) == (6, 1, "field n: not a number: 'x'", 1)
