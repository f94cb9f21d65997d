"""Checks of the broker, the sources' topics, their retention, and clocks."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from tandem.cli.doctor.check import Check, FailedCheck, Finding, ok, unknown, unless
from tandem.cli.doctor.subject import Subject
from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.ledger.realtime.commit_files import newest_at
from tandem.serving.status.sources import log_ends, unarchived
from tandem.views.counted import counted
from tandem.views.instant import APPEND_TIME, LAST, nearest_time
from tandem.views.source.source import Source

SKEW: Final = timedelta(seconds=5)
"""Tolerated difference between clocks."""
_FEED_BYTES: Final = 1_000_000
_HOUR_MS: Final = 3_600_000
_SET: Final = "set the topic's `{key}` to {value}"

_AHEAD_OF_BROKER: Final = ("message.timestamp.after.max.ms", "message.timestamp.difference.max.ms")
"""Limits on how far a record's timestamp may be ahead of the broker's clock. Brokers before Kafka 3.6 have only the second."""

MISSING: Final = FailedCheck("fail", "a source's topic does not exist", "`tandem up` creates it")
UNMATCHED: Final = FailedCheck(
    "warn", "no topic matches a source's pattern, so its log is empty", "create a topic that matches, or correct the pattern"
)
COMPACTED: Final = FailedCheck(
    "fail",
    "a topic's `cleanup.policy` has `compact`: Kafka may delete records before they are archived, and answers are still "
    "labelled exact",
    "set `Source(..., compacted=True)` for {source}, then run `tandem apply`; or set the topic's `cleanup.policy` to delete",
)
NOT_COMPACTED: Final = FailedCheck(
    "warn",
    "a source has `compacted=True` but none of its topics is compacted: no answer is labelled exact, without need",
    "remove `compacted=True` from {source}, then run `tandem apply`",
)
OTHERS_TIME: Final = FailedCheck(
    "fail",
    "a source's event time is `_append_time`, but its topic stores the producers' timestamps: all records go to quarantine",
    _SET.format(key="message.timestamp.type", value="LogAppendTime"),
)
ANY_TIME: Final = FailedCheck(
    "warn",
    "`message.timestamp.after.max.ms` accepts timestamps more than an hour ahead: one such record marks partitions as idle and "
    "windows as final too early, until real time reaches that timestamp",
    _SET.format(key="message.timestamp.after.max.ms", value="3600000"),
)
NO_WRITES: Final = FailedCheck(
    "fail",
    "`min.insync.replicas` is larger than the topic's number of replicas: writes with acks=all fail, including those of `feed`",
    "set the topic's `min.insync.replicas` to at most {replicas}, or add replicas",
)
NO_SPARE: Final = FailedCheck(
    "warn",
    "`min.insync.replicas` equals the number of replicas: all writes fail while one broker is down",
    "set the topic's `min.insync.replicas` to {fewer}, or add replicas",
)
ONE_COPY: Final = FailedCheck(
    "warn",
    "`min.insync.replicas` is 1 although the topic has several replicas: acknowledged records may be lost with one broker",
    _SET.format(key="min.insync.replicas", value="2"),
)
SMALL: Final = FailedCheck(
    "warn",
    "`max.message.bytes` is below the megabyte that `feed` and `generate` may send as one record",
    _SET.format(key="max.message.bytes", value="1048588"),
)
LOST: Final = FailedCheck("fail", "a topic has deleted offsets that were not archived", "`tandem archive` records them as a gap")
SHORT: Final = FailedCheck(
    "warn",
    "retention may soon delete records that are not archived",
    "run `tandem archive` more often, or raise `retention.ms` or `retention.bytes` of the topic",
)
FUTURE_RECORD: Final = FailedCheck(
    "warn",
    "a topic's newest record has a timestamp in the future: the clock of its producer or of the broker is ahead of this "
    "machine's",
    "synchronise the clocks of the broker and of the producers of {topic} by NTP; the watermark follows such timestamps",
)
OFF_CALENDAR: Final = FailedCheck(
    "warn",
    "a topic's newest record has a timestamp after the year 9999: its producer sends micro- or nanoseconds as milliseconds; "
    "Tandem counts the record with the nearest time, retention by time never deletes it, and Spark reads such records slowly",
    "correct the producer of {topic}, and set the topic's `message.timestamp.after.max.ms` to 3600000",
)
OPEN_TRANSACTION: Final = FailedCheck(
    "warn",
    "records wait behind a transaction that has been open for more than a minute: neither lag nor answers count them, and the "
    "topic's retention still deletes records",
    "end the transaction's producer, or abort it by Kafka's `kafka-transactions.sh abort`",
)
FUTURE: Final = FailedCheck(
    "fail",
    "a publication or a realtime commit has a time in the future: a clock was set back, or another machine's clock is ahead",
    "synchronise this machine's clock by NTP; until {until}, `--as-of` and `[keep]` use wrong times",
)


LOGIN: Final = FailedCheck(
    "fail",
    "the broker refuses the login: its password, certificate or token",
    "correct the named settings of `[kafka]`, or the user at the broker; docs/kafka.md describes each login",
)
AUTHORITY: Final = FailedCheck(
    "fail",
    "no trusted authority, of `kafka.ca_file` or else of this system, has signed the broker's certificate",
    "set `kafka.ca_file` to the PEM file of the broker's authority",
)
OLD: Final = FailedCheck("fail", "the broker's version is too old", "run a broker of Kafka 2.8 or later")
_REFUSALS: Final = {
    kafka.LoginRefused: LOGIN,
    kafka.UnknownAuthority: AUTHORITY,
    kafka.BrokerTooOld: OLD,
}


def _broker(subject: Subject) -> Iterator[Finding]:
    outside = subject.settings.kafka.bootstrap
    if not outside:
        try:
            broker.address(subject.settings)
        except kafka.NoBroker:
            yield unknown("embedded broker, not running; `tandem up` starts it")
            return
    try:
        many = kafka.brokers(subject.connection)
    except kafka.BrokerRefused as error:
        if (problem := _REFUSALS.get(type(error))) is None:
            raise
        yield problem.found(str(error))
        return
    several = f", {many} brokers" if many > 1 else ""
    yield ok(f"{'outside' if outside else 'embedded'} broker, answers at {subject.connection.address.bootstrap}{several}")


def _topics(subject: Subject) -> Iterator[Finding]:
    there = subject.topics
    told = kafka.configurations(subject.connection, there)
    copies = kafka.replicas(subject.connection, there)
    found: list[Finding] = []
    for source in subject.sources.values():
        names = source.topics_among(there)
        if not names:
            found.append(UNMATCHED.found(f"no topic matches {source.pattern} of source '{source.name}'"))
        for name in names:
            if name in there:
                found += judged(source, name, told[name], copies[name])
            else:
                found.append(MISSING.found(f"topic '{name}' of source '{source.name}' does not exist"))
        policies = [told[name]["cleanup.policy"] for name in names if name in there]
        if source.compacted and policies and not any("compact" in policy for policy in policies):
            found.append(
                NOT_COMPACTED.found(f"source '{source.name}': cleanup.policy is {', '.join(policies)}", source=source.name)
            )
    # Sources may share a topic.
    yield from unless(dict.fromkeys(found), f"{', '.join(there)}: configured as their sources need")


def judged(source: Source, topic: str, configuration: Mapping[str, str], replicas: int) -> Iterator[Finding]:
    """Yield the problems of a topic's effective configuration for one of its sources."""
    least, policy = int(configuration["min.insync.replicas"]), configuration["cleanup.policy"]
    timed, size = configuration["message.timestamp.type"], int(configuration["max.message.bytes"])
    if "compact" in policy and not source.compacted:
        yield COMPACTED.found(f"topic '{topic}': cleanup.policy is {policy}", source=source.name)
    if source.event_time == APPEND_TIME and timed != "LogAppendTime":
        yield OTHERS_TIME.found(f"topic '{topic}': message.timestamp.type is {timed}")
    most = next((configuration[key] for key in _AHEAD_OF_BROKER if key in configuration), None)
    if timed == "CreateTime" and (most is None or int(most) > _HOUR_MS):
        yield ANY_TIME.found(f"topic '{topic}': message.timestamp.after.max.ms is {most}")
    insync = f"topic '{topic}': min.insync.replicas is {least}, of {replicas}"
    if least > replicas:
        yield NO_WRITES.found(insync, replicas=replicas)
    elif least == replicas > 1:
        yield NO_SPARE.found(insync, fewer=replicas - 1)
    elif least == 1 < replicas:
        yield ONE_COPY.found(insync)
    if size < _FEED_BYTES:
        yield SMALL.found(f"topic '{topic}': max.message.bytes is {size}")


def _retention(subject: Subject) -> Iterator[Finding]:
    whole = [source for source in subject.sources.values() if set(source.topics) <= set(subject.topics)]
    found: list[Finding] = []
    for name, left in unarchived(subject.settings, subject.tables, whole, now=subject.now).items():
        if left.lost:
            found.append(LOST.found(f"source '{name}': {counted(left.lost, 'offset')} lost"))
        elif left.warning:
            found.append(SHORT.found(f"source '{name}': {left.warning}"))
    yield from unless(found, "retention does not threaten records that are not archived")


def _transactions(subject: Subject) -> Iterator[Finding]:
    ends = log_ends(subject.settings, subject.sources.values())
    partitions = dict.fromkeys(each for end in ends.values() for each in end.blocked)  # sources may share a topic
    warnings = [text for each in partitions if (text := each.warning(subject.now)) is not None]
    yield from unless([OPEN_TRANSACTION.found(text) for text in warnings], "no transaction has been open for more than a minute")


def _timestamps(subject: Subject) -> Iterator[Finding]:
    found = []
    for name, milliseconds in kafka.newest_timestamps(subject.connection, subject.topics.values()).items():
        newest = nearest_time(1000 * milliseconds)
        if 1000 * milliseconds > LAST:
            found.append(OFF_CALENDAR.found(f"topic '{name}' has a record with timestamp {milliseconds} ms", topic=name))
        elif newest > subject.now + SKEW:
            found.append(FUTURE_RECORD.found(f"topic '{name}' has a record with timestamp {_written(newest)}", topic=name))
    yield from unless(found, "no record has a timestamp in the future")


def _clock(subject: Subject) -> Iterator[Finding]:
    tables, found = subject.tables, []
    times = {f"publication {each.number}": each.at for each in Publications(tables).history()[-1:]}
    for state in Followed(StandingReleases(tables), subject.settings.keep.release_days).states(subject.now):
        for source in state.cuts:
            if (made := newest_at(tables, state.release, source)) is not None:
                times[f"the newest commit of release {state.release} for source '{source}'"] = made
    for what, at in times.items():
        if at > subject.now + SKEW:
            found.append(
                FUTURE.found(
                    f"{what} has the time {_written(at)}; this machine's clock says {_written(subject.now)}", until=_written(at)
                )
            )
    yield from unless(found, f"{_written(subject.now)}; no stored time is in the future")


def _written(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds")


CHECKS: Final = (
    Check(
        "broker",
        _broker,
        FailedCheck(
            "fail",
            "the broker does not answer",
            "embedded broker: `tandem down`, then `tandem up`; outside broker: start it, or correct `[kafka]`",
        ),
        (LOGIN, AUTHORITY, OLD),
        needs=("settings",),
    ),
    Check(
        "topics",
        _topics,
        FailedCheck(
            "fail",
            "the topics cannot be described",
            "see `broker` and `definitions`; docs/kafka.md lists the rights that the Kafka user needs",
        ),
        (MISSING, UNMATCHED, COMPACTED, NOT_COMPACTED, OTHERS_TIME, ANY_TIME, NO_WRITES, NO_SPARE, ONE_COPY, SMALL),
        needs=("broker", "state"),
    ),
    Check(
        "retention",
        _retention,
        FailedCheck("fail", "the archive or the topics' records cannot be read", "see `tables` and `broker`"),
        (LOST, SHORT),
        needs=("broker", "state"),
    ),
    Check(
        "transactions",
        _transactions,
        FailedCheck("fail", "the topics' ends cannot be read", "see `broker` and `definitions`"),
        (OPEN_TRANSACTION,),
        needs=("broker", "state"),
    ),
    Check(
        "timestamps",
        _timestamps,
        FailedCheck("fail", "the topics' timestamps cannot be read", "see `broker` and `definitions`"),
        (FUTURE_RECORD, OFF_CALENDAR),
        needs=("broker", "state"),
    ),
    Check(
        "clock",
        _clock,
        FailedCheck("fail", "publications or realtime tables cannot be read", "see `tables`"),
        (FUTURE,),
        needs=("state",),
    ),
)
