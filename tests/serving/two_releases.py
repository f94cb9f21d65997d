"""A release beside the live one, in a world whose layers the test plays: both follow one log, each by commits of its own."""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Final

from tandem.ledger import cut_decision
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish import adoption, promotion
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.standing import StandingReleases
from tandem.ledger.realtime_writer import Writer
from tandem.serving.read.outcome import Absent, Value
from tandem.views.kernel.kernel import decode, prepare
from tandem.views.oracle import compare, grouped
from tandem.views.project.project import load_files
from tandem.views.view import View
from tests.serving.world import DEFINITIONS, NOON, SOURCE, World

DAYS: Final = 7.0

CHANGES: Final[Mapping[str, tuple[str, str]]] = {
    "a comment": ("SOURCES = (hits,)", "SOURCES = (hits,)  # all of them"),
    "another filter": ('where="bytes > 0"', 'where="bytes > 3"'),
    "another window": ("tumbling(hours=1)", "tumbling(minutes=20)"),
    "another key": ('keys={"odd": "bytes % 2 = 1"}', 'keys={"odd": "bytes % 3 = 1"}'),
    "another measure": ('"largest": maximum("bytes")', '"largest": maximum("bytes + 1")'),
    "a measure renamed": (
        'measures={"n": count(), "bytes": total("bytes"), "la',
        'measures={"m": total("bytes"), "n": count(), "la',
    ),
    "one view fewer": (", ever, inverse)", ", inverse)"),
    "one view more": ("VIEWS = (", 'also = View(source=hits, measures={"n": count()})\nVIEWS = (also, '),
}
"""What is edited in the definitions, and what takes its place."""


def edited(*changes: str) -> str:
    """The world's definitions after some of the CHANGES."""
    text = DEFINITIONS
    for change in changes:
        assert CHANGES[change][0] in text, f"{change} edits nothing"
        text = text.replace(*CHANGES[change])
    return text


def applied(world: World, definitions: str) -> World:
    """The layers of the next release, which begins at the live cut; its batch views are being built."""
    live = Publications(world.tables).latest()
    assert live is not None
    made = copy(world)
    made.project = load_files({**world.project.files, "definitions.py": definitions.encode()})
    release = adoption.adopt(world.tables, made.project, by="test", at=NOON)
    cut_decision.begin(world.tables, release.number, world.source, live.cut(world.source), by="test", at=NOON)
    views = {name: BatchView(fingerprint) for name, fingerprint in release.views.items()}
    state = replace(live, release=release.number, kind="apply", views=views, rejected={}, after_final={})
    made.live = StandingReleases(world.tables).record("applied", state).state
    made.writer = Writer.claim(world.tables, release.number, world.source, by="test", at=NOON)
    made._version = 1000 * release.number  # views of one meaning share a table
    return made


def build(made: World, cut: Position) -> Publication:
    """Batch views of the standing release below the cut: from now on it is ready."""
    standing = StandingReleases(made.tables)
    state = standing.state_of(made.live.release)
    return standing.record("built", made.recomputed(cut)(state)).state


def asked(world: World) -> IfPromoted:
    """The world's release, to be asked as if it were promoted now."""
    return IfPromoted(world.tables, world.live.release, DAYS, lambda: NOON)


def promote(world: World) -> Publication:
    """Make the world's release live."""
    standing = StandingReleases(world.tables)
    return promotion.promote(standing, world.live.release, days=DAYS, max_lag=2**40, by="test", at=NOON)


def differing(world: World, view: View, answer: Value | Absent, start: Position, end: Position) -> dict[str, Any]:
    """What an answer says otherwise than the plain oracle does of a part of the log, by measure."""
    source = world.project.sources[SOURCE]
    events = prepare(
        source, decode(source, world.records(start, end)).events, tuple(topic for topic, _ in world.places[:1])
    ).events
    groups, rejected = grouped(view, events)
    found = {each.measure: each for each in compare(view, answer.table, groups) if each.differ}
    if answer.total != len(groups):
        return {**found, "rows": (answer.total, len(groups))}
    return {**found, "rejected": rejected} if dict(answer.provenance.rejected) != dict(rejected) else found


def ranges_of(cut: Position, end: Position) -> dict[str, tuple[Position, Position]]:
    """The part of the log that each layer counts."""
    return {"batch": (LOG_START, cut), "speed": (cut, end), "merged": (LOG_START, end)}
