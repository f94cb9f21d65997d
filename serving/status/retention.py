"""How long unarchived records are safe in each source's topics, if the broker answers."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from statistics import fmean

from tandem.infra import kafka
from tandem.infra.kafka import Record, broker
from tandem.infra.settings import Settings
from tandem.ledger import losses
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.retention import Retention, UnarchivedOffsets, UntilLoss, until_loss
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.views.instant import nearest_time
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.source import Source

# The mean size of this many records stands for all records.
_SAMPLE = 20


def unarchived(settings: Settings, tables: Tables, sources: Iterable[Source], *, now: datetime) -> dict[str, UntilLoss]:
    """For each source by name, how far it is from a loss; empty without a broker. All topics of the sources exist."""
    found: dict[str, UntilLoss] = {}
    wanted = list(sources)
    if not wanted:
        return found
    warn = timedelta(hours=settings.kafka.warn_hours)
    with suppress(kafka.NoBroker, kafka.NoTopic):
        address = broker.address(settings)  # without one, Kafka's client is not imported
        connection = kafka.connect(address)
        names = {name for source in wanted for name in source.topics}
        kept = {name: Retention.of(told) for name, told in kafka.configurations(connection, names).items()}
        releases = [state.release for state in Followed(StandingReleases(tables), settings.keep.release_days).states(now)]
        for source in wanted:
            lost, waiting = _waiting(connection, tables, source, kept, releases, now=now)
            found[source.name] = until_loss(waiting, lost=lost, now=now, warn=warn)
    return found


def _waiting(
    connection: "kafka.Connection",
    tables: Tables,
    source: Source,
    kept: Mapping[str, Retention],
    releases: Iterable[int],
    *,
    now: datetime,
) -> tuple[int, list[UnarchivedOffsets]]:
    """The number of lost offsets, and the part of each partition that is neither archived nor retained without limit."""
    name, topics = source.name, kafka.topics(connection, source.topics)
    ledger = ArchiveLedger(tables, name)
    reached, known = ledger.accounted(), ledger.firsts()
    names = ledger.topic_names()
    by_id = {topic.id: kept[topic.name] for topic in topics}
    starts, ends = kafka.starts(connection, topics), kafka.ends(connection, topics)
    former = losses.counted_of_former(tables, name, releases=releases, present=by_id)
    firsts = losses.first_offsets(starts, {topic.name: topic.id for topic in topics}, known=known, names=names)
    lost = losses.lost(starts, firsts={**known, **firsts}, archived=reached, former=former).length
    oldest = dict[Partition, int]()
    for place, end in ends.items():
        first = max(starts[place], reached.get(place, 0))
        if first < end and by_id[place[0]] != Retention():
            oldest[place] = first
    found = kafka.records(connection, topics, oldest, most=_SAMPLE)
    return lost, [
        UnarchivedOffsets(by_id[place[0]], ends[place] - oldest[place], _oldest(records, now), fmean(map(_bytes, records)))
        for place, records in found.items()
        if records
    ]


def _oldest(records: Sequence[Record], now: datetime) -> datetime:
    """The timestamp of the first record that is not in the future; `now` if all are.

    Retention goes by timestamps, oldest record first. Kafka keeps a record from the future longer; other brokers do not.
    """
    times = (nearest_time(1000 * record.milliseconds) for record in records)
    return next((time for time in times if time <= now), now)


def _bytes(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
