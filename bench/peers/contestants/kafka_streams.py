"""Kafka Streams, at least once and exactly once.

As its documentation advises: RocksDB stores, one thread a core, exactly_once_v2 with its default commit interval of 100 ms. Where
it catches up it has a cache, and at least once commits each second, since its default of 30 s would show nothing for as long.
Where freshness is measured it has none, because a cache holds updates back until a commit
(https://kafka.apache.org/40/streams/developer-guide/memory-mgmt), and at least once commits as often as the other.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, Literal

from tandem.bench.peers.contestant import DEDUP_MINUTES, Contestant, ContestantCommand, Resources, Setting
from tandem.bench.peers.jvm import jvm, properties, version
from tandem.bench.peers.outputs import LastValues, follow_topic
from tandem.bench.peers.provided import program
from tandem.infra import kafka

Guarantee = Literal["at_least_once", "exactly_once_v2"]
_GROUP: Final = "kafka-streams"


def settings(guarantee: Guarantee, given: Resources) -> Mapping[str, str]:
    """What differs from Kafka Streams' defaults."""
    seldom = guarantee == "at_least_once" and not given.fresh
    return {
        "processing.guarantee": guarantee,
        "num.stream.threads": str(given.cores),
        "commit.interval.ms": "1000" if seldom else "100",
        "statestore.cache.max.bytes": "0" if given.fresh else str(64 << 20),
        "replication.factor": "1",
        "auto.offset.reset": "earliest",
        "consumer.max.poll.records": "5000",
        "producer.compression.type": "lz4",
        "producer.linger.ms": "20" if seldom else "5",
    }


def command(guarantee: Guarantee, setting: Setting) -> ContestantCommand:
    """The program, with a file of its properties."""
    chosen = {
        **{f"program.{name}": value for name, value in _program(setting).items()},
        **kafka.java_options(setting.connection.address),
        **settings(guarantee, setting),
        "application.id": setting.output,
        "state.dir": str(setting.folder / "state"),
    }
    config = setting.private("program.properties", properties(chosen))
    return ContestantCommand((*jvm(setting, _GROUP), program(_GROUP), str(config)))


def _program(setting: Setting) -> Mapping[str, str]:
    return {"topic": setting.topic, "output": setting.output, "dedup_minutes": str(DEDUP_MINUTES)}


def contestant(name: str, guarantee: Guarantee) -> Contestant:
    """Kafka Streams with this guarantee."""
    return Contestant(
        name=name,
        version=lambda: version(_GROUP, "kafka-streams"),
        settings=partial(settings, guarantee),
        command=partial(command, guarantee),
        output=LastValues,
        reader=follow_topic,
    )


AT_LEAST_ONCE = contestant("kafka-streams-alo", "at_least_once")
EXACTLY_ONCE = contestant("kafka-streams-eos", "exactly_once_v2")
