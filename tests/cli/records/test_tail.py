"""A followed file yields every line once: while it grows, and when it is renamed, replaced, truncated or deleted."""

import os
from pathlib import Path
from threading import Event

import pytest

from tandem.cli.records.lines import lines, without_end
from tandem.cli.records.tail import followed


class Feed:
    """A followed file, read line by line."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.stop = Event()
        self.restarts: list[str] = []
        self._given = map(without_end, followed(file, self.stop, pause_s=0, restarted=self.restarts.append))

    def read(self, count: int) -> list[bytes]:
        return [next(self._given) for _ in range(count)]

    def end(self) -> list[bytes]:
        self.stop.set()
        return list(self._given)


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "log")


def append(file: Path, data: bytes) -> None:
    with file.open("ab") as stream:
        stream.write(data)


def test_appended_lines_follow_the_existing_ones(feed: Feed) -> None:
    append(feed.file, b"one\ntwo\n")
    assert feed.read(2) == [b"one", b"two"]
    append(feed.file, b"\nthree\r\n")
    assert feed.read(2) == [b"", b"three"]
    assert feed.end() == []


def test_a_line_waits_for_its_end(feed: Feed) -> None:
    append(feed.file, b"one\nhal")
    assert feed.read(1) == [b"one"]
    append(feed.file, b"f\n")
    assert feed.read(1) == [b"half"]
    append(feed.file, b"unfinished")
    assert feed.end() == []


def test_a_renamed_file_is_read_to_its_end_before_the_new_one(feed: Feed) -> None:
    append(feed.file, b"one\n")
    assert feed.read(1) == [b"one"]
    append(feed.file, b"two\nlast without end")
    feed.file.rename(feed.file.with_suffix(".1"))
    append(feed.file, b"new\n")
    assert feed.read(3) == [b"two", b"last without end", b"new"]
    assert feed.restarts == [f"{feed.file} was replaced: reading the new file from its start"]


def test_a_truncated_file_is_read_from_its_start(feed: Feed) -> None:
    append(feed.file, b"a long line\n")
    assert feed.read(1) == [b"a long line"]
    feed.file.write_bytes(b"short\n")
    assert feed.read(1) == [b"short"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\n", b"other, and longer than before\nmore\n"),
        (b"header\none\n", b"header\nother, and longer than before\n"),  # the same first bytes
        (b"h" * 5000 + b"\none\n", b"h" * 5000 + b"\ntwo\nthree\n"),
        (b"one\ntwo\nhalf", b"new\ntwo\nhalf of it\n"),  # the same bytes before the position
        (b"one\n", b"two\n"),  # the same size
    ],
)
def test_a_truncated_file_that_has_grown_past_the_position_is_read_from_its_start(
    feed: Feed, before: bytes, after: bytes
) -> None:
    append(feed.file, before)
    lines_before = before.split(b"\n")[:-1]
    assert feed.read(len(lines_before)) == lines_before
    feed.file.write_bytes(after)
    os.utime(feed.file, (1, 1))
    lines_after = after.split(b"\n")[:-1]
    assert feed.read(len(lines_after)) == lines_after
    assert feed.restarts == [f"{feed.file} was truncated: reading it from its start"]
    append(feed.file, b"end\n")
    assert feed.read(1) == [b"end"]
    assert len(feed.restarts) == 1


def test_a_writer_that_goes_on_at_its_old_position_leaves_a_hole_that_is_not_a_line(feed: Feed) -> None:
    """What `copytruncate` of logrotate does to a writer that does not append; the lines after the hole are read once."""
    with feed.file.open("wb", buffering=0) as writer:
        writer.write(b"one\n" * 500_000)
        assert feed.read(500_000)[-1] == b"one"
        os.truncate(feed.file, 0)
        writer.write(b"two\n")
        assert feed.read(1) == [b"two"]
        writer.write(b"three\n")
        assert feed.read(1) == [b"three"]
    assert len(feed.restarts) == 1


def test_an_appended_file_is_not_read_again(feed: Feed) -> None:
    for number in range(300):
        append(feed.file, b"%d\n" % number * 10)
        assert feed.read(10) == [b"%d" % number] * 10
    assert feed.restarts == []


def test_an_absent_file_is_waited_for(tmp_path: Path) -> None:
    stop, waits = Event(), []
    feed = map(without_end, followed(tmp_path / "log", stop, pause_s=0))
    # A generator cannot be looked at while it waits: the event it waits on writes the file.
    stop.wait = lambda _: waits.append(append(tmp_path / "log", b"late\n"))  # type: ignore[method-assign,assignment]
    assert next(feed) == b"late"
    assert len(waits) == 1


def test_a_deleted_file_may_still_be_written_to(feed: Feed) -> None:
    append(feed.file, b"one\n")
    assert feed.read(1) == [b"one"]
    with feed.file.open("ab") as stream:
        feed.file.unlink()
        stream.write(b"two\n")
        stream.flush()
        assert feed.read(1) == [b"two"]
    append(feed.file, b"three\n")
    assert feed.read(1) == [b"three"]


@pytest.mark.parametrize("data", [b"", b"\n", b"a\nb", b"a\r\n\r\n\rb\r", b"\xff\x00\n\n\n"])
def test_following_and_reading_agree_on_lines(feed: Feed, data: bytes) -> None:
    append(feed.file, data)
    read = list(map(without_end, lines(feed.file)))
    append(feed.file, b"" if data.endswith(b"\n") or not data else b"\n")
    found = feed.end()
    assert [line.removesuffix(b"\r") for line in found] == [line.removesuffix(b"\r") for line in read]
