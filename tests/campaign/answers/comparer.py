"""Compares answers of every interface with the oracle, at the position that each answer names."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any

from tests.campaign import project
from tests.campaign.answers import oracle
from tests.campaign.answers.log import Log
from tests.campaign.commands import Tandem
from tests.campaign.server import NoAnswer, Server
from tests.campaign.tally import Tally

WAYS = ("query", "http", "sql", "http sql")
_READ_S = 300.0
"""How long the log may be out of reach before an answer stays unchecked."""


@dataclass
class Comparer:
    """Compares one answer after the other; `editions` has the least amount that `per_minute` counts, by release."""

    tandem: Tandem
    server: Server
    log: Log
    tally: Tally
    editions: Mapping[int, int]
    random_: random.Random
    _compared: int = 0
    _mismatched: int = 0

    def run(self, stop: Event) -> None:
        """Compare until stopped: each way and each view as often as the others."""
        kinds = [(way, view) for way in WAYS for view in oracle.VIEWS]
        while not stop.is_set():
            for way, view in self.random_.sample(kinds, len(kinds)):
                if stop.wait(0.3):
                    return
                self.compare(way, view)
            self.compare_hot()

    def compare(self, way: str, view: str) -> oracle.Position | None:
        """Compare one answer and return its position, or None if no answer came or the log cannot be read now."""
        try:
            rows, whence = self._answer(way, view)
        except NoAnswer as error:
            self.tally.count("no answer")
            self.tally.note("no answer", way=way, view=view, why=str(error))
            return None
        position = position_of(whence)
        records = self.log.records(position, seconds=_READ_S)
        if records is None:
            self.tally.count("unchecked answers")
            return None
        expected = oracle.VIEWS[view](oracle.sales(records, position), self.editions[whence["release"]])
        self.tally.count("comparisons")
        self.tally.count(f"comparisons by {way}")
        if whence["hot"] is not None:
            self.tally.count("comparisons before the commit")
        self.tally.count("rows", len(rows))
        self.tally.note("compared", way=way, view=view, rows=len(rows), position=position, release=whence["release"])
        if different := oracle.difference(expected, rows):
            self.tally.found("wrong answers", way=way, view=view, provenance=whence, difference=different)
        return position

    def compare_hot(self) -> None:
        """What the hot tail itself found when it compared its answers with commits; a new process counts from 0."""
        try:
            hot = self.server.status()["sources"][project.SOURCE]["hot"]
        except NoAnswer:
            return
        if (rows := hot["mismatched"] - self._mismatched) > 0:
            self.tally.found("wrong answers", rows, why="commits differ from hot commits", hot=hot)
        self.tally.count("views compared by the hot tail", max(0, hot["compared"] - self._compared))
        self._compared, self._mismatched = hot["compared"], hot["mismatched"]

    def reaches(self, end: oracle.Position, way: str, view: str) -> bool:
        """Compare one answer; whether it stands at `end`, of which it leaves partitions without a record out."""
        return self.compare(way, view) == {partition: offset for partition, offset in end.items() if offset}

    def _answer(self, way: str, view: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        statement = f"SELECT * FROM {view}"
        if way == "http":
            return self.server.rows(view)
        if way == "http sql":
            document = self.server.sql(statement)
            return document["rows"], document["provenance"]["views"][view]
        ended = self.tandem.run(*(("query", view) if way == "query" else ("sql", statement)))
        if ended.code or not ended.document:
            raise NoAnswer(str(ended.document.get("error") or ended.err[-300:]))
        document = ended.document
        return document["rows"], document["_provenance"]["views"][view] if way == "sql" else document["provenance"]


def position_of(whence: Mapping[str, Any]) -> dict[int, int]:
    """The position of an answer by partition; there is one topic, which is never made anew."""
    topics = whence["realtime"]
    if len(topics) > 1:
        raise ValueError(f"an answer of {json.dumps(topics)}: the project has one topic")
    return {int(partition): offset for partitions in topics.values() for partition, offset in partitions.items()}
