"""`tandem demo --once --adopt`: the first events are in tables of a lake, which end in the middle of the stream.

The topics begin before the tables end, so both have the events between. The demo adopts the tables by `tandem adopt` before it
starts the speed layer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from inspect import signature
from itertools import islice
from typing import Any, Final

import pyarrow.parquet as pq

from tandem.cli.demo.stage import Stage
from tandem.cli.log import generate
from tandem.cli.log.generate import Generator
from tandem.infra import clock
from tandem.views.decode import decode
from tandem.views.decode.sample_records import as_records
from tandem.views.errors import TandemError
from tandem.views.source.event import event_fields
from tandem.views.source.source import Source

# The share of the samples at which the topics begin, and at which the tables end.
_TOPICS, _TABLES = 0.2, 0.4
_ADOPT_S: Final = 900.0


@dataclass(frozen=True)
class Seam:
    """Samples before `tables_end` are in tables, samples from `topics_start` on are sent; both count all samples.

    `rows` is the number of adopted rows, `overlap` the number of those that the topics have, too.
    """

    topics_start: int = 0
    tables_end: int = 0
    rows: int = 0
    overlap: int = 0


NO_TABLE: Final = Seam()


def adopt(stage: Stage, generator: Generator, events: int, base: datetime, say: Callable[[str], None]) -> Seam:
    """Write the first samples of each source as a Parquet table, and adopt it. Raises TandemError.

    Malformed samples are in no table.
    """
    if signature(generator.truth).parameters:
        raise TandemError(
            f"`tandem demo --adopt` cannot check {stage.call.project.name}: its expected answers follow the order of one topic, "
            "and history comes before it; choose a project without such answers, such as examples/demo",
            code="usage-invalid",
        )
    topics_start, tables_end = int(events * _TOPICS), int(events * _TABLES)
    samples = list(islice(generate.samples(generator, 1, events, base, 0.0), tables_end))
    overlap = sum(facts is not None for _, _, facts, _ in samples[topics_start:])
    say(f"tables have the first {tables_end} events; the topics will begin with event {topics_start + 1}")
    rows = 0
    for name in generator.sources:
        source = stage.call.definitions().sources[name]
        folder = stage.state / "lake" / name
        folder.mkdir(parents=True)
        _write(source, [value for _, value, facts, of in samples if of == name and facts is not None], folder / "events.parquet")
        adopted: dict[str, Any] = stage.finish(stage.start("adopt", name, f"--from={folder}"), seconds=_ADOPT_S)
        say(f"{name}: {adopted['rows']} rows adopted; {adopted['seam']}")
        rows += adopted["rows"]
    return Seam(topics_start, tables_end, rows, overlap)


def _write(source: Source, values: list[bytes], file: Any) -> None:
    """The events of these values as a table of their fields, in the same order."""
    records = as_records(source, values, topic_id=source.topics[0], offsets=range(len(values)), at=clock.now())
    fields = event_fields(source.event)
    events = decode(source, records).events.select([field.name for field in fields])
    pq.write_table(events.rename_columns([field.key for field in fields]), file, row_group_size=max(events.num_rows, 1))
