"""Samples of a source's freshness: lag and age of the worst moment of each minute, compared with a plain oracle."""

from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from tandem.ledger.log.positions import Position, upper
from tandem.serving.status import freshness
from tandem.serving.status.freshness import SourceFreshness
from tandem.serving.status.sources import LogEnd
from tests.serving.http.served import Served
from tests.serving.world import NOON, SOURCE, forty_hits

EVERY_S = 5


def at(first: int, second: int = 0) -> Position:
    return Position.of({("T", 0): first, ("T", 1): second})


def minutes_of(*polls: tuple[Position | None, Position | None]) -> list[tuple[int | None, float | None]]:
    """Lag and age by minute of polls, each an end of the log and what answers counted."""
    source = SourceFreshness()
    for n, (end, counted) in enumerate(polls):
        seconds = float(EVERY_S * n)
        source.add(LogEnd(end), counted, polled=seconds, seconds=seconds, at=NOON + timedelta(seconds=seconds))
    return [(sample.lag, sample.age_s) for sample in source.samples]


@pytest.mark.parametrize("seed", range(20))
def test_age_is_the_time_since_answers_had_the_whole_log(seed: int) -> None:
    random, end, counted, polls = Random(seed), [0, 0], [0, 0], list[tuple[Position | None, Position | None]]()
    for n in range(400):
        end = [offset + random.choice((0, 0, 3, 10)) for offset in end]
        if random.random() < 0.4 and not 100 < n < 140:
            counted = [random.randint(low, high) for low, high in zip(counted, end, strict=True)]
            counted = end if random.random() < 0.3 else counted
        polls.append((None if random.random() < 0.05 else at(*end), at(*counted)))
    expected = []
    for minute in range(0, 400, 12):
        lags, ages = list[int](), list[float]()
        for n, (log, answers) in enumerate(polls[minute : minute + 12], minute):
            if log is None or answers is None:
                continue
            lags.append(sum(max(0, log.get(p, 0) - answers.get(p, 0)) for p in log))
            covered = [k for k in range(n + 1) if (past := polls[k][0]) is not None and past.at_or_below(answers)]
            ages += [float(EVERY_S * (n - covered[-1]))] if covered else []
        expected.append((max(lags, default=None), max(ages, default=None)))
    assert minutes_of(*polls) == expected
    assert max(age or 0 for _, age in expected) > 150


def test_what_is_unknown_is_no_number() -> None:
    minute = 12
    assert minutes_of(*[(None, at(5))] * minute, *[(at(9), None)] * minute) == [(None, None), (None, None)]
    # The server began in the middle of a backlog: how old that is nobody saw.
    behind = [(at(9), at(5))] * minute
    assert minutes_of(*behind, (at(9), at(9))) == [(4, None), (0, 0.0)]


def test_nobody_waits_for_the_records_of_a_former_topic() -> None:
    counted, new = at(5), Position.of({("new", 0): 2})
    before = [(at(5), counted), *[(at(9), counted)] * 11]
    assert minutes_of(*before, (new, upper(counted, new))) == [(4, 55.0), (0, 0.0)]


def test_a_backlog_of_days_is_bounded_and_never_reported_as_younger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "_WAITING", 16)
    source = SourceFreshness()
    for n in range(2000):
        source.add(LogEnd(at(n)), at(n // 2), polled=60.0 * n, seconds=60.0 * n, at=NOON)
        assert len(source._waiting) <= 16
        assert source.samples[-1].age_s is not None
        assert source.samples[-1].age_s >= 60.0 * (n - n // 2)
    assert len(source.samples) == freshness.SAMPLES


@pytest.mark.anyio
async def test_the_route_shows_samples_of_readable_sources(tmp_path: Path) -> None:
    served = Served(forty_hits(tmp_path))
    counted = served.world.end
    async with served.client() as client:
        assert (await client.get("/freshness")).json() == {"sources": {SOURCE: {"at": [], "lag": [], "age_s": []}}}
        for n, ahead in enumerate((0, 7, 8)):
            served.seconds, served.now = 60.0 * n, NOON + timedelta(minutes=n)
            served.server.freshness.add({SOURCE: LogEnd(Position.of({p: o + ahead for p, o in counted.items()}))}, served.seconds)
        shown = (await client.get("/freshness")).json()["sources"][SOURCE]
        assert shown == {
            "at": ["2026-11-01T12:00:00Z", "2026-11-01T12:01:00Z", "2026-11-01T12:02:00Z"],
            "lag": [0, 14, 16],
            "age_s": [0.0, 60.0, 120.0],
        }
        bound = served.another(served.token("bound", rows=["page=/a"]))
        assert (await bound.get("/freshness")).json() == {"sources": {SOURCE: None}}
        elsewhere = served.another(served.token("elsewhere", views=["of another project"]))
        assert (await elsewhere.get("/freshness")).json() == {"sources": {}}
        served.server.freshness.add({}, 180.0)
        assert served.server.freshness.by_source == {}, "a source that no release has any more"
