"""A server reads each message as it was sent, or reports in one sentence why it cannot; a stream may end between messages."""

from io import BufferedWriter, BytesIO, RawIOBase
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.hot import messages as stream
from tandem.ledger.hot.chain import HotChange, decoded
from tandem.ledger.hot.messages import HotMessage, HotStatus, message_of, read, write
from tandem.ledger.realtime.commit_files import row_values
from tandem.ledger.realtime.commits import Commit
from tandem.views.errors import TandemError
from tests.ledger.test_one_commit_per_micro_batch import FULL
from tests.ledger.tiny import SOURCE, at, fold

CHANGES = (None, HotChange(at(1, 1)), HotChange(at(1, 1), fold(at(1, 1), at(2, 3))), HotChange(FULL.start, FULL))
STATES = (HotStatus(), HotStatus("no broker", {"daily": "it needs 90% of the time"}, 1, 2, 3))


class Pipe(RawIOBase):
    """A stream that takes a few bytes at a time, as a pipe may."""

    def __init__(self) -> None:
        self.content = b""

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.content += bytes(content[:7])
        return len(bytes(content[:7]))


def sent(*messages: HotMessage) -> bytes:
    """What reaches the server before the process has closed its end."""
    pipe = Pipe()
    out: BufferedWriter = BufferedWriter(pipe)
    for message in messages:
        write(out, message)
    return pipe.content


messages = st.builds(
    message_of, st.integers(1, 3), st.just(SOURCE), st.sampled_from(STATES), st.sampled_from(CHANGES), lost=st.booleans()
)


@given(st.lists(messages, max_size=4), st.integers(0, 4000))
def test_messages_are_read_as_they_were_sent_up_to_where_the_stream_breaks(several: list[HotMessage], cut: int) -> None:
    whole = sent(*several)
    assert list(read(BytesIO(whole))) == several
    ends = [len(sent(*several[:number])) for number in range(len(several) + 1)]
    expected = [message for message, end in zip(several, ends[1:], strict=True) if end <= cut]
    assert list(read(BytesIO(whole[:cut]))) == expected


def test_what_is_no_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (first, second) = (message_of(1, SOURCE, state, None) for state in STATES)
    body = sent(second)
    monkeypatch.setattr(stream, "_MOST", len(body) - 4)
    assert list(read(BytesIO(body))) == [second]
    monkeypatch.setattr(stream, "_MOST", len(body) - 5)
    found = read(BytesIO(sent(first) + body))
    assert next(found) == first
    with pytest.raises(TandemError, match=f"announced {len(body) - 4} bytes; expected at most {len(body) - 5}"):
        next(found)
    with pytest.raises(TandemError, match="cannot be read"):
        next(read(BytesIO(b"\0\0\0\1x")))
    with pytest.raises(TandemError, match="a hot commit of 1 bytes cannot be read"):
        HotMessage(1, SOURCE, HotStatus(), {}, b"x").change  # noqa: B018 - it is read here


DAMAGES = (
    st.none() | st.booleans() | st.integers(-9, 2**63) | st.text(max_size=3) | st.sampled_from(["[1]", "{}", "[[1, 2]]", '"x"'])
)


@given(st.binary() | st.tuples(st.sampled_from(sorted(row_values(FULL)[0])), DAMAGES, st.booleans()))
def test_a_damaged_commit_is_read_as_another_or_refused_in_a_sentence(damage: Any) -> None:
    if isinstance(damage, tuple):
        name, value, drop = damage
        rows = row_values(FULL)
        rows[0] = {column: held for column, held in (rows[0] | {name: value}).items() if not (drop and column == name)}
        damage = msgspec.msgpack.encode(rows)
    try:
        found = decoded(damage)
    except TandemError:
        return
    assert isinstance(found, Commit)
