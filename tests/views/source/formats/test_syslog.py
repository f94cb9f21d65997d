"""Syslog of RFC 5424: every part by its grammar, or quarantine with the part that was left."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event
from tandem.views.source.formats.syslog import syslog
from tandem.views.source.source import Source
from tests.views.logged import decoded, reason


class Message(Event):
    time: datetime
    facility: int
    severity: int
    hostname: str | None
    app: str
    procid: str | None
    msgid: str | None
    structured: str
    message: str | None


class Short(Event):
    time: datetime
    message: str
    structured: str | None
    site: str = "main"


MESSAGES = Source(topic="t", event=Message, event_time="time", decoder=syslog())
SHORT = Source(topic="t", event=Short, event_time="time", decoder=syslog())
HEAD = "<165>1 2003-10-11T22:14:15.003Z host app 8710 ID47 "


def event(text: str, source: Source = MESSAGES) -> dict[str, Any]:
    found = decoded(source, text.encode())
    (one,) = found.events.to_pylist() or found.rejects.to_pylist()
    return {name: field for name, field in one.items() if not name.startswith("_")}


EVENT = "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47"
# The examples of RFC 5424, section 6.5.
EXAMPLES = [
    (
        "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \ufeff'su root' failed for lonvick on /dev/pts/8",
        {"facility": 4, "severity": 2, "hostname": "mymachine.example.com", "app": "su", "procid": None, "msgid": "ID47",
         "structured": "{}", "message": "'su root' failed for lonvick on /dev/pts/8",
         "time": datetime(2003, 10, 11, 22, 14, 15, 3000, tzinfo=UTC)},
    ),
    (
        "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.",
        {"facility": 20, "severity": 5, "time": datetime(2003, 8, 24, 12, 14, 15, 3, tzinfo=UTC), "procid": "8710"},
    ),
    (
        f'{EVENT} [exampleSDID@32473 iut="3" eventSource="Application" eventID="1011"] \ufeffAn application event log entry...',
        {"structured": '{"exampleSDID@32473":{"iut":["3"],"eventSource":["Application"],"eventID":["1011"]}}',
         "message": "An application event log entry..."},
    ),
    (
        f'{EVENT} [exampleSDID@32473 iut="3" eventSource="Application" eventID="1011"][examplePriority@32473 class="high"]',
        {"structured": '{"exampleSDID@32473":{"iut":["3"],"eventSource":["Application"],"eventID":["1011"]},'
         '"examplePriority@32473":{"class":["high"]}}', "message": None},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_of_the_rfc_are_read(text: str, expected: dict[str, Any]) -> None:
    found = event(text)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("rest", "structured", "message"),
    [
        ("-", "{}", None),
        ("-\n", "{}", None),
        ("- ", "{}", ""),
        ("- a\n\n", "{}", "a\n"),
        ("- [x]", "{}", "[x]"),
        ("[a]", '{"a":{}}', None),
        ('[a b="]"]'.replace("]", "\\]", 1), '{"a":{"b":["]"]}}', None),
        (r'[a b="\"\\\x"] m', r'{"a":{"b":["\"\\\\x"]}}', "m"),
        ('[a ip="1" ip="2"]', '{"a":{"ip":["1","2"]}}', None),
        ('[a b="é\n"] é', '{"a":{"b":["é\\n"]}}', "é"),
    ],
)
def test_structured_data_is_json_and_the_message_is_what_follows(rest: str, structured: str, message: str | None) -> None:
    found = event(HEAD + rest)
    assert (found["structured"], found["message"]) == (structured, message)


def test_digits_beyond_the_microsecond_are_cut() -> None:
    """Real senders write nanoseconds, although RFC 5424 has six digits."""
    found = event("<1>1 2003-10-11T22:14:15.123456789Z h a p m -")
    assert found == event("<1>1 2003-10-11T22:14:15.123456Z h a p m -")


def test_nil_is_null_where_the_field_may_be_null() -> None:
    found = event("<0>1 2003-10-11T22:14:15Z - - - - -")
    assert (found["hostname"], found["app"], found["msgid"], found["facility"], found["severity"]) == (None, "-", None, 0, 0)
    short = event("<0>1 2003-10-11T22:14:15Z - - - - -", SHORT)
    assert (short["message"], short["structured"], short["site"]) == ("", None, "main")


@pytest.mark.parametrize(
    ("text", "expected", "says"),
    [
        ("<34>Oct 11 22:14:15 host su: text", "format", "priority"),
        ("<34>2 2003-10-11T22:14:15Z h a p m -", "format", "priority"),
        ("<034>1 2003-10-11T22:14:15Z h a p m -", "format", "priority"),
        ("<192>1 2003-10-11T22:14:15Z h a p m -", "out_of_range", "192"),
        ("<1>1 2003-10-11T22:14:15 h a p m -", "format", "time"),
        ("<1>1 2003-10-11t22:14:15z h a p m -", "format", "time"),
        ("<1>1 2003-10-11T22:14:60Z h a p m -", "invalid_value", "does not exist"),
        ("<1>1 2003-02-30T22:14:15Z h a p m -", "invalid_value", "does not exist"),
        ("<1>1 1990-02-28T22:14:15Z h a p m -", "implausible_time", "1990"),
        ("<1>1 - h a p m -", "missing_field", "time"),
        (f"<1>1 2003-10-11T22:14:15Z {'h' * 256} a p m -", "format", "hostname"),
        (f"<1>1 2003-10-11T22:14:15Z h {'a' * 49} p m -", "format", "app"),
        ("<1>1 2003-10-11T22:14:15Z hé a p m -", "format", "hostname"),
        ("<1>1 2003-10-11T22:14:15Z h a p m", "format", "msgid"),
        ("<1>1 2003-10-11T22:14:15Z h a  m -", "format", "procid"),
        (HEAD + "text", "format", "structured"),
        (HEAD + "[]", "format", "structured"),
        (HEAD + "[a", "format", "structured"),
        (HEAD + '[a b="x]', "format", "structured"),
        (HEAD + '[a b="x"]text', "format", "structured"),
        (HEAD + '[a b="]"]', "format", "structured"),
        (HEAD + f"[{'a' * 33}]", "format", "structured"),
        (HEAD + '[a x="1"][a x="2"]', "repeated_key", "'a'"),
        (HEAD + "- \udcff", "utf8", "byte"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_other_messages_go_to_quarantine_and_say_where_they_left_the_format(text: str, expected: str, says: str) -> None:
    (row,) = decoded(MESSAGES, text.encode("utf-8", "surrogateescape")).rejects.to_pylist()
    assert row["reason"] == expected
    assert says in row["detail"]


def test_a_crafted_message_is_refused_in_time_that_grows_with_its_length() -> None:
    """No message makes the search try again what it has passed."""
    assert reason(MESSAGES, (HEAD + '[a b="' + "\\\\" * 200_000).encode()) == "format"
    assert reason(MESSAGES, (HEAD + "[a]" * 200_000 + "[").encode()) == "format"


WORD = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=32)
NAME = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='=]"'), min_size=1, max_size=32)
VALUE = st.text(st.characters(codec="utf-8") | st.sampled_from('"\\]'), max_size=8)


@given(
    head=st.tuples(
        st.integers(0, 191), st.integers(946_771_200, 4_070_000_000), st.integers(-1439, 1439), WORD, WORD, WORD, WORD
    ),
    elements=st.dictionaries(NAME, st.lists(st.tuples(NAME, VALUE), max_size=3), max_size=3),
    message=st.none() | st.text(st.characters(codec="utf-8"), max_size=8),
)
def test_what_the_grammar_writes_is_read_back(head: Any, elements: dict[str, Any], message: str | None) -> None:
    """Any message built part by part as the RFC says gives its parts back."""
    priority, second, zone, *words = head
    at = datetime.fromtimestamp(second, timezone(timedelta(minutes=zone)))
    escaped = {'"': '\\"', "\\": "\\\\", "]": "\\]"}
    data = "".join(
        "[" + name + "".join(f' {key}="{"".join(escaped.get(c, c) for c in value)}"' for key, value in pairs) + "]"
        for name, pairs in elements.items()
    )
    text = f"<{priority}>1 {at.isoformat()} {' '.join(words)} {data or '-'}" + ("" if message is None else f" {message}")
    found = event(text)
    assert (found["facility"], found["severity"]) == divmod(priority, 8)
    assert found["time"] == at
    assert [found["hostname"], found["app"], found["procid"], found["msgid"]] == [
        None if word == "-" and name != "app" else word for name, word in zip(("h", "app", "p", "m"), words, strict=True)
    ]
    read = {name: [(key, value) for key, values in pairs.items() for value in values]
            for name, pairs in json.loads(found["structured"]).items()}  # fmt: skip
    assert {name: sorted(pairs) for name, pairs in read.items()} == {name: sorted(pairs) for name, pairs in elements.items()}
    assert found["message"] == (None if message is None else message.removesuffix("\n").removeprefix("\ufeff"))


class Odd(Event):
    time: datetime
    host: str


class Wrong(Event):
    time: datetime
    severity: str


@pytest.mark.parametrize(
    ("event_type", "says"),
    [(Odd, "Odd.host: .*no such field; fields: hostname"), (Wrong, "Wrong.severity: .*as int64, not string")],
)
def test_an_event_type_cannot_ask_for_what_no_message_has(event_type: type[Event], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        syslog().parser(event_type)
