"""The smallest log that can go wrong: two partitions of integers, a view that counts and adds, tiny partials."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import Position, distance
from tandem.ledger.publish.publications import Kind, Publication, Publications
from tandem.ledger.realtime import tiling
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime_writer import Writer

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
SOURCE = "numbers"
VIEW = "f00d"
LOG = tuple([(7 * partition + 3 * offset) % 101 for offset in range(400)] for partition in range(2))


def at(*offsets: int) -> Position:
    """The position at these offsets of partitions 0, 1, ... of topic T."""
    return Position.of({("T", partition): offset for partition, offset in enumerate(offsets)})


def partial(start: Position, end: Position) -> tuple[int, int]:
    """How many numbers `[start, end)` of LOG holds, and their sum: what every answer is compared with."""
    values = [value for p in range(2) for value in LOG[p][start.get(("T", p), 0) : end.get(("T", p), 0)]]
    return len(values), sum(values)


def encode(pair: tuple[int, int]) -> bytes:
    return json.dumps(pair).encode()


def decode(partials: Sequence[bytes]) -> tuple[int, int]:
    pairs = [json.loads(each) for each in partials]
    return sum(number for number, _ in pairs), sum(total for _, total in pairs)


def merge(view: str, partials: Sequence[bytes]) -> bytes:
    assert view == VIEW
    return encode(decode(partials))


def fold(start: Position, end: Position, epoch: int = 1) -> Commit:
    """The micro-batch over `[start, end)`."""
    counts = Counts(events=distance(start, end))
    return Commit(start, end, epoch, "fold", counts=counts, partials={VIEW: encode(partial(start, end))}, at=AT, by="test")


def claim(tables: Tables, release: int = 1) -> Writer:
    return Writer.claim(tables, release, SOURCE, by="test", at=AT)


def commit_each(writer: Writer, *ends: Position) -> None:
    """One micro-batch from end to end."""
    for end in ends:
        writer.append(fold(writer.end, end, writer.epoch))


def added(commits: Sequence[Commit], since: Sequence[Commit]) -> tuple[Commit, ...] | None:
    """Those beyond all that were seen before; None if one holds old and new together, so that a reader has to begin again."""
    reached = tiling.end(since)
    new = tuple(one for one in commits if not one.mark and (reached is None or not one.end.at_or_below(reached)))
    return None if reached is not None and any(not reached.at_or_below(one.start) for one in new) else new


def first(tables: Tables, release: int = 1) -> Publication:
    return Publications(tables).initial(release=release, sources=[SOURCE], views={"numbers_total": VIEW}, by="test", at=AT)


def publish_cut(tables: Tables, cut: Position, *, release: int = 1, kind: Kind = "recompute") -> Publication:
    """Publish a batch that covers everything below `cut`."""

    def derive(parent: Publication | None) -> Publication:
        views = parent.views if parent else {}
        return Publication(0, 0, AT, "test", kind, release, {SOURCE: cut}, views)

    published = Publications(tables).publish(derive)
    assert published is not None
    assert published == Publications(tables).latest()
    return published
