"""Real-world data with all its faults, through everything that a project does: no wrong answer.

CSV of several rows a record, `NA` where nothing was measured, calendar days over a change of summer time, exact duplicates
near and far, a logger whose clock is 40 days ahead, and a gateway that stamps its records 50 minutes ahead. The speed layer,
a recompute and an apply are killed on the way. The expected rows come from plain Python over the rows that were sent.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tandem.infra import kafka
from tandem.infra.folders import ROOT
from tandem.infra.kafka import broker
from tandem.infra.process import background
from tandem.infra.settings import Settings
from tests.end_to_end.test_readme import typed

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(3000)]

SECONDS = 300
BERLIN = ZoneInfo("Europe/Berlin")
HEADER = "station,number,read_at,ozone,battery"
FIRST = datetime(2026, 10, 23, 20, tzinfo=UTC)
"""Two days before the night in which Berlin's clocks go back, so that one day of the calendar has 25 hours."""
WRONG_CLOCK = "DE-07"
DEFINITIONS = """
from datetime import datetime, timedelta
from tandem import Event, Source, View, calendar, count, csv, first, last, maximum, minimum, session, collect_set, total

MEASURED = "TRY_CAST(nullif(ozone, 'NA') AS DECIMAL(9, 2))"


class Reading(Event):
    station: str
    number: int
    read_at: datetime
    ozone: str
    battery: int | None


readings = Source(
    topic="readings", event=Reading, event_time="read_at", identity=("station", "number"), decoder=csv(header=True),
    max_events_per_record=20,
    dedup_window=timedelta(minutes=45),
)
daily = View(
    source=readings,
    keys={"station": "station"},
    window=calendar("day", zone="Europe/Berlin"),
    measures={"readings": count(), "ozone": total(MEASURED), "least": minimum(MEASURED), "most": maximum(MEASURED)},
)
by_day = View(source=readings, window=calendar("day", zone="Europe/Berlin"), measures={"readings": count()})
stations = View(
    source=readings,
    keys={"station": "upper(station)"},
    measures={"readings": count(), "began": first("number"), "came_to": last("number"),
        "batteries": collect_set("battery", limit=20)},
)
missing = View(source=readings, keys={"station": "station"}, where="ozone = 'NA'", measures={"rows": count()})
runs = View(source=readings, keys={"station": "station"}, window=session(hours=2), measures={"readings": count()})
SOURCES = (readings,)
VIEWS = (daily, by_day, stations, missing, runs)
"""
CHANGED = DEFINITIONS.replace("ozone = 'NA'", "ozone = 'NA' OR battery IS NULL")


@dataclass(frozen=True)
class Row:
    """One line of the file."""

    station: str
    number: int
    read_at: datetime
    ozone: str
    battery: int | None

    @property
    def line(self) -> str:
        battery = "" if self.battery is None else str(self.battery)
        return f"{self.station},{self.number},{self.read_at.isoformat()},{self.ozone},{battery}"

    @property
    def measured(self) -> Decimal | None:
        return None if self.ozone == "NA" else Decimal(self.ozone)


def readings(dice: random.Random, numbers: range) -> list[Row]:
    """One reading an hour and station, with pauses; the wrong clock's are 40 days ahead."""
    found = []
    for station in (f"DE-{number:02}" for number in range(1, 9)):
        ahead = timedelta(days=40) if station == WRONG_CLOCK else timedelta(0)
        for number in numbers:
            if dice.random() < 0.1:
                continue
            at = FIRST + timedelta(minutes=37 * number, seconds=dice.randrange(60)) + ahead
            ozone = "NA" if dice.random() < 0.2 else f"{dice.randrange(12_000) / 100:.2f}"
            found.append(Row(station, number, at, ozone, None if dice.random() < 0.1 else dice.randrange(80, 100)))
    dice.shuffle(found)
    return found


def expected(rows: Sequence[Row], *, changed: bool = False) -> dict[str, list[dict[str, Any]]]:
    """What plain Python says of the distinct rows, by view; rows in no order."""
    distinct = sorted(set(rows), key=lambda row: (row.station, row.read_at))
    answers: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (station, day), group in grouped(distinct, lambda row: (row.station, day_of(row.read_at))).items():
        values = [row.measured for row in group if row.measured is not None]
        answers["daily"].append(
            {
                "window_start": day,
                "station": station,
                "readings": len(group),
                "ozone": f"{sum(values):.2f}" if values else None,
                "least": f"{min(values):.2f}" if values else None,
                "most": f"{max(values):.2f}" if values else None,
            }
        )
    for day, group in grouped(distinct, lambda row: day_of(row.read_at)).items():
        answers["by_day"].append({"window_start": day, "readings": len(group)})
    for station, group in grouped(distinct, lambda row: row.station).items():
        answers["stations"].append(
            {
                "station": station,
                "readings": len(group),
                "began": group[0].number,
                "came_to": group[-1].number,
                "batteries": sorted({row.battery for row in group if row.battery is not None}),
            }
        )
        lacking = [row for row in group if row.ozone == "NA" or (changed and row.battery is None)]
        if lacking:
            answers["missing"].append({"station": station, "rows": len(lacking)})
        for began, length in sessions(group):
            answers["runs"].append({"window_start": instant(began), "station": station, "readings": length})
    return answers


def sessions(rows: Sequence[Row]) -> Iterator[tuple[datetime, int]]:
    """The starts and lengths of runs without a pause of two hours."""
    began, length = rows[0].read_at, 1
    for before, row in pairwise(rows):
        if row.read_at - before.read_at >= timedelta(hours=2):
            yield began, length
            began, length = row.read_at, 0
        length += 1
    yield began, length


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> Mapping[Any, list[Row]]:
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def day_of(at: datetime) -> str:
    local = at.astimezone(BERLIN)
    return instant(datetime(local.year, local.month, local.day, tzinfo=BERLIN))


def instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


@dataclass
class Drill:
    """A project in a folder, and all that was sent to it."""

    folder: Path
    sent: list[Row] = field(default_factory=list)
    positions: dict[str, dict[str, int]] = field(default_factory=dict)
    changed: bool = False
    compared: int = 0

    @property
    def settings(self) -> Settings:
        return Settings(state=str(self.folder / ".tandem"))

    def tandem(self, command: str, *, code: int = 0) -> Any:
        """The document of a command."""
        done = typed(f"{ROOT}/tandem {command} --project {self.folder} --json", self.folder)
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def feed(self, rows: Sequence[Row]) -> None:
        """Send the rows as a file, twenty a record."""
        file = self.folder / "rows.csv"
        file.write_text("\n".join([HEADER, *(row.line for row in rows)]) + "\n")
        self.acknowledged(self.tandem(f"feed {file} --source readings")["positions"])
        self.sent += rows

    def feed_stamped(self, rows: Sequence[Row], *, at: datetime) -> None:
        """Send one record with the rows, whose timestamp is what its producer's clock says."""
        address = broker.address(self.settings)
        topic = kafka.topic(kafka.connect(address), "readings")
        value = "\n".join([HEADER, *(row.line for row in rows)]).encode()
        with kafka.Sender(address) as sender:
            sender.send_as("readings", 0, kafka.Record(int(at.timestamp() * 1000), None, value))
            sender.finish()
            found = sender.positions
        self.acknowledged({topic.id: {str(partition): offset for (_, partition), offset in found.items()}})
        self.sent += rows

    def acknowledged(self, positions: Mapping[str, Mapping[str, int]]) -> None:
        for topic, partitions in positions.items():
            self.positions.setdefault(topic, {}).update(partitions)

    def right(self) -> None:
        """Once all that was acknowledged is counted, every view has the expected rows."""
        awaited = expected(self.sent, changed=self.changed)
        for view, rows in awaited.items():
            answer = self.counted(view)
            names = rows[0].keys()
            found = [{name: row[name] for name in names} for row in answer["rows"]]
            assert sorted(found, key=str) == sorted(rows, key=str), view
            self.compared += len(rows)

    def counted(self, view: str) -> Any:
        """The answer once it stands at the acknowledged positions or beyond."""
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self.tandem(f"query {view}")
            stands = answer["provenance"]["realtime"]
            if all(
                stands.get(topic, {}).get(partition, 0) >= offset
                for topic, partitions in self.positions.items()
                for partition, offset in partitions.items()
            ):
                return answer
            assert time.monotonic() < deadline, answer["provenance"]
            time.sleep(0.3)

    def kill_speed(self) -> None:
        speed = background.running(self.settings.folder, "speed")
        assert speed is not None
        os.kill(speed.pid, signal.SIGKILL)

    def killed(self, command: str, *, when: str) -> None:
        """Kill a command once it has printed `when`."""
        words = [sys.executable, "-m", "tandem.cli", *command.split(), "--project", str(self.folder)]
        child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert child.stderr is not None
        for line in child.stderr:
            if when in line:
                break
        child.kill()
        child.wait()


def test_no_answer_is_wrong(tmp_path: Path) -> None:
    dice = random.Random(20261025)
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    drill = Drill(tmp_path)
    now = datetime.now(UTC)
    try:
        drill.tandem("up")
        one = readings(dice, range(60))
        drill.feed(one)
        drill.feed(one[:200])
        drill.right()
        # A gateway's clock is 50 minutes ahead: what was counted before it must stay known.
        ahead = [row for row in readings(dice, range(200, 206)) if row.station == "DE-03"]
        drill.feed_stamped([*ahead, *one[200:205]], at=now + timedelta(minutes=50))
        drill.feed(one)
        drill.right()

        drill.kill_speed()
        two = readings(dice, range(60, 110))
        drill.feed([*two, *one[50:150]])
        drill.tandem("up")
        drill.right()

        drill.killed("recompute --archive", when="copying")
        drill.right()
        assert recomputed(drill) == 0
        drill.right()
        drill.feed([*two[:80], *readings(dice, range(110, 125))])
        drill.right()

        (tmp_path / "definitions.py").write_text(CHANGED)
        drill.tandem("plan", code=3)
        drill.killed("apply", when="readings: ")
        drill.right()
        drill.tandem("apply")
        drill.feed([*one[:30], *readings(dice, range(125, 140))])
        drill.right()
        drill.tandem("promote")
        drill.changed = True
        drill.right()
        drill.feed(readings(dice, range(140, 150)))
        drill.right()
        drill.tandem("rollback")
        drill.changed = False
        drill.right()
        drill.tandem("resume")
        drill.feed([*two, *readings(dice, range(150, 160))])
        drill.right()
        assert recomputed(drill) == 0
        drill.right()
        assert drill.tandem("verify --all")["agree"]
    finally:
        drill.tandem("down")
    assert drill.compared > 500


def recomputed(drill: Drill) -> int:
    """How many events the speed layer had counted twice, by the recompute's own words."""
    document = drill.tandem("recompute --archive")
    assert document["published"], document
    return int(document["repaired"]["readings"])
