"""What a pattern of rows matches, which rows conditions read, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.kernel.kernel import merge, partial, present
from tandem.views.measures import derived, matches
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import Source
from tandem.views.testing import answer
from tandem.views.view import View, bind
from tests.samples import EPOCH, SAMPLES, Sample, placed, table
from tests.views.measures.test_funnel import twice

MINUTE = timedelta(minutes=1)
LETTERS = {letter: f"contains(s, '{letter}')" for letter in "abc"}


def number(rows: list[dict[str, Any]], pattern: str, define: dict[str, str], **options: Any) -> Any:
    """The answer for rows a minute apart, in pieces that are merged in another order."""
    view = View(SAMPLES, measures={"m": matches(pattern, define=define, **options)})
    events = placed([{"at": EPOCH + minute * MINUTE, **row} for minute, row in enumerate(rows)])
    pieces = [partial(view, table(events[start : start + 2]), EMPTY) for start in range(0, len(events), 2)]
    (row,) = present(view, merge(view, pieces[::-1])).to_pylist()
    return row["m"]


def of_letters(pattern: str, text: str, **options: Any) -> Any:
    """The number of matches in rows with these letters; of several in brackets a row has all."""
    rows = [{"s": letters} for letters in text.split()]
    return number(rows, pattern, {name: LETTERS[name] for name in "abc" if name in pattern}, **options)


@pytest.mark.parametrize(
    ("pattern", "rows", "expected"),
    [
        ("a b", "a b a c b a b", 2),
        ("a+", "a a a b a", 2),
        ("a+?", "a a a b a", 4),
        ("a{2}", "a a a a a", 2),
        ("a{2,}", "a a a a a", 1),
        ("a{2,}?", "a a a a a", 2),
        ("a{1}? b{1}", "a b a a b", 2),
        ("(a b){1,1}? c", "a b c b c", 1),
        ("a{,2} b", "a a a b", 1),
        ("(a | a b) c", "a b c a c", 2),
        ("a | a b a", "a b a", 2),
        ("a b a | a", "a b a", 1),
        ("a b? a", "a a a b a", 2),
        ("a x{2} b", "a a b b", 1),
        ("a* b", "a a c b b", 2),
        ("(a b){2} c", "a b a b c a b c", 1),
        ("(a|b)+ c", "ab ab b c", 1),
        ("a (b a)*", "a b a b a a", 2),
        ("a c", "a b c", 0),
    ],
)
def test_rows_are_matched_as_the_standard_says(pattern: str, rows: str, expected: int) -> None:
    assert of_letters(pattern, rows) == expected


@pytest.mark.slow
def test_time_grows_with_the_rows_alone() -> None:
    """A regular expression would try all 2**2000 ways to cut the rows."""
    assert number([{"i": 1}] * 2000, "(a+ a+)+ b", {"a": "i = 1", "b": "i = 2"}, limit=2000) == 0


def test_prev_and_next_read_rows_outside_of_the_match() -> None:
    rising = [{"i": i} for i in (1, 2, 3, 2, 5, None, 6)]
    assert number(rising, "up", {"up": "i > PREV(i)"}) == 3
    assert number(rising, "up", {"up": "i > prev(i, 2)"}) == 3
    assert number(rising, "up", {"up": "PREV(i) IS NULL"}) == 2
    assert number(rising, "up+", {"up": "i < NEXT(i + 0, 1)"}) == 2
    assert number(rising, "here", {"here": "PREV(i, 0) = i AND NEXT(i, 6) = 6"}) == 1


def test_first_and_last_read_rows_of_the_match() -> None:
    rows: list[dict[str, Any]] = [{"i": i} for i in (5, 3, 4, 2, 6, None, 7, 7)]
    assert number(rows, "top down+ up", {"down": "i < FIRST(top.i)", "up": "i > top.i"}, limit=99) == 1
    assert number(rows, "a{2}", {"a": "i >= FIRST(a.i)"}) == 3
    assert number(rows, "a{2}", {"a": "LAST(a.i) = i"}) == 3
    assert number(rows, "a b", {"b": "i > FIRST(i)"}) == 2
    assert number(rows, "a b+ c", {"b": "i < a.i", "c": "LAST(b.i) IS NOT NULL"}, limit=99) == 1
    assert number(rows, "a (b | c)", {"b": "c.i > 0", "c": "i < LAST(a.i)"}, limit=99) == 2
    assert number(rows, "a (b | c)", {"b": "c.i IS NULL AND FALSE", "c": "i < LAST(i + 1)"}, limit=99) == 3


def test_a_way_that_failed_is_tried_with_other_rows_of_the_match() -> None:
    rows = [{"i": 5}, {"i": 1}, {"i": 1}]
    assert number(rows, "(a | b) c d", {"a": "i = 5", "b": "i = 5", "c": "i = 1", "d": "a.i IS NULL"}) == 1


def test_every_user_has_a_sequence() -> None:
    rows: list[dict[str, Any]] = [
        {"i": 1, "s": "x"},
        {"i": 1, "s": "y"},
        {"i": 2, "s": None},
        {"i": 2, "s": "y"},
        {"i": 2, "s": "x"},
    ]
    assert number(rows, "a b", {"a": "i = 1", "b": "i > PREV(i)"}) == 1
    assert number(rows, "a b", {"a": "i = 1", "b": "i > PREV(i)"}, by="s") == 2
    assert number(rows, "a b", {"a": "i = 1", "b": "i > PREV(i)"}, filter="s = 'x'") == 1


def test_a_condition_of_other_rows_that_fails_is_not_met() -> None:
    rows = [{"i": 2**62, "s": "x"}, {"i": 2**62, "s": "7"}, {"i": 1, "s": "8"}]
    assert number(rows, "large", {"large": "i + PREV(i) > 9"}) == 2  # exact at any size, as a derived measure
    assert number(rows, "cast", {"cast": "CAST(PREV(s) AS BIGINT) = 7"}) == 1


def test_rows_beyond_the_limit_make_it_null() -> None:
    assert of_letters("a b", "a b c c", limit=4) == 1
    assert of_letters("a b", "a b c c c", limit=4) is None


def test_rows_made_of_one_event_are_one_row_of_the_sequence() -> None:
    source = Source(topic="samples", event=Sample, event_time="at", name="twice", prepare=twice)
    events = [Sample(at=EPOCH + minute * MINUTE, i=1) for minute in range(2)]
    (row,) = answer(View(source, measures={"m": matches("a b", define={"a": "i = 1", "b": "i = 2"})}), events)
    assert row["m"] == 1
    with pytest.raises(DefinitionError, match="those that twice makes of one event have no order; take a source without prepare"):
        bind(View(source, measures={"m": matches("a", define={"a": "i > PREV(i)"})}))


def test_matches_are_derived_from() -> None:
    view = View(SAMPLES, measures={"m": matches("a", define={"a": "i = 1"}), "twice": derived("2 * m")})
    assert present(view, partial(view, table([{"at": EPOCH, "i": 1}]), EMPTY)).to_pylist()[0]["twice"] == 2


def test_how_conditions_are_written_changes_no_fingerprint() -> None:
    def of(pattern: str, **define: str) -> str:
        return fingerprint(View(SAMPLES, measures={"m": matches(pattern, define=define)}))

    assert of("a b", a="i = 1") == of("a  b", a="i=1")
    different = [
        of("a b", a="i = 1"),
        of("b a", a="i = 1"),
        of("a b", b="i = 1"),
        of("a b", a="flag"),
        of("a b", a="i > PREV(i)"),
    ]
    different += [of("a b", a="i > PREV(i, 2)"), of("a b", a="flag", b="i = 1"), of("a b", b="flag", a="i = 1")]
    different += [of("a b", b="i > a.i"), of("a b", b="i > FIRST(a.i)"), of("a b", b="i > FIRST(i)")]
    different += [of("flag d", flag="d > 1", d="flag"), of("d flag", flag="d > 1", d="flag")]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize(
    ("marked", "sentence"),
    [
        ("a b«)", "')' has no partner"),
        ("«(a b", "'(' is not closed"),
        ("(a «{2} {3})", "'{3}' follows a quantifier; put what is repeated into brackets"),
        ("a |«", "the pattern ends where a symbol or '(' is expected"),
        ("«* a", "'*' stands where a symbol or '(' is expected"),
        ("a+«*", "'*' follows a quantifier"),
        ("a{1}«*", "'*' follows a quantifier"),
        ("a«{3,2}", "the largest number of '{3,2}' is 2, less than 3"),
        ("a«{0}", "the largest number of '{0}' is 0, less than 1"),
        ("a«{,}", "'{,}' has no number; a count is {2}, {2,}, {2,5} or {,5}"),
        ("a«{2000}", "'{2000}' counts to more than 1000"),
        ("«(a{100}){11}", "counted out it has more than 1000 symbols"),
        ("«a{400} | b{400} | a{400}", "counted out it has more than 1000 symbols"),
        ("«a? b*", "it matches nothing, too, and a match has at least one row"),
        ("a «(b?)+", "a group that matches nothing, too, cannot be repeated"),
        ("a «$", "'$' is not part of a pattern"),
        ("«", "the pattern ends where a symbol"),
        ("(" * 50 + "«(a" + ")" * 51, "more than 50 brackets are in each other"),
    ],
)
def test_what_is_no_pattern_is_shown_with_its_place(marked: str, sentence: str) -> None:
    text = marked.replace("«", "").replace("{2} {3}", "{2} {3}")
    with pytest.raises(DefinitionError) as error:
        matches(text, define={})
    first, shown, caret = str(error.value).split("\n")
    assert sentence in first
    place = marked.index("«") if "{2} {3}" not in marked else text.index("{3}")
    assert (shown[4:], len(caret) - 5) == (text, place)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pattern": 7}, "pattern 7 is not a text, such as"),
        ({"define": "i = 1"}, "define 'i = 1' is not a dict of conditions, such as"),
        ({"define": {"c": "i = 1"}}, "define has the symbol 'c', which is not in the pattern; its symbols: a, b"),
        ({"pattern": "a A", "define": {}}, "the symbols 'A' and 'a' differ only in case; write one of them"),
        (
            {"pattern": " ".join(f"s{n}" for n in range(33)), "define": {}},
            "a pattern has at most 32 different symbols; here are 33",
        ),
        ({"define": {"a": "i"}}, "view 'v', measure 'm': 'i' is of type BIGINT; a condition is BOOLEAN"),
        ({"define": {"a": "PREV(i)"}}, "has the condition 'PREV.i.' of type BIGINT; a condition is BOOLEAN"),
        ({"define": {"a": "PREV(i) > s || 'x'"}}, "has the condition .* which does not fit"),
        ({"define": {"a": "j = 1"}}, "view 'v', measure 'm': 'j = 1' names a field 'j' that Sample does not have"),
        ({"define": {"a": "PREV(j) = 1"}}, "view 'v', measure 'm': 'j' names a field 'j' that Sample does not have"),
        ({"define": {"a": "i ="}}, "view 'v', measure 'm': 'i =' is not SQL"),
        ({"define": {"a": 7}}, "view 'v', measure 'm': 7 is not a text"),
        ({"define": {"a": "PREV(i, -1) = 1"}}, "n of PREV.x, n. is not a number from 0 to 1000"),
        ({"define": {"a": "PREV(i, i) = 1"}}, "n of PREV.x, n. is not a number from 0 to 1000"),
        ({"define": {"a": "NEXT() = 1"}}, "NEXT has the form NEXT.x. or NEXT.x, n."),
        ({"define": {"a": "PREV(NEXT(i)) = 1"}}, "x of PREV.x. reads another row; it can read fields alone"),
        ({"define": {"b": "PREV(a.i) = 1"}}, "x of PREV.x. reads another row; it can read fields alone"),
        ({"define": {"a": "i > FIRST(i, 2)"}}, "FIRST has the form FIRST.a.x. or FIRST.x., for a symbol a and fields x"),
        ({"define": {"b": "FIRST(a.i + i) > 1"}}, "FIRST reads one row, but its fields are of different symbols"),
        ({"define": {"b": "FIRST(a.i) > LAST(a.i)"}}, "reads several rows of the match: of FIRST.a., LAST.a. it can read one"),
        ({"define": {"b": "i > a.i"}, "limit": 9000}, "at most 2236"),
        (
            {"define": {"b": "i > a.i", "a": "i > FIRST(a.i)"}, "limit": 200},
            "conditions read 2 rows of the match: at most 170",
        ),
        ({"by": "who"}, "view 'v', measure 'm': 'who' names a field 'who' that Sample does not have"),
        ({"limit": 0}, "limit 0 is not an integer from 1 to 100000"),
    ],
)
def test_what_are_no_matches_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    arguments: dict[str, Any] = {"pattern": "a b", "define": {"a": "i = 1"}} | options
    with pytest.raises(DefinitionError, match=sentence):
        bind(View(SAMPLES, name="v", measures={"m": matches(**arguments)}))
