"""Tandem with a sink that keeps a compacted topic equal to the view, as `tandem up` runs one."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tandem.bench.peers.contestant import Contestant, ContestantCommand, Setting
from tandem.bench.peers.contestants import tandem
from tandem.bench.peers.outputs import VIEW, LastValues, follow_topic
from tandem.bench.peers.provided import script
from tandem.infra import kafka
from tandem.infra.settings import KafkaSettings, Settings

_SINK: Final = """
from tandem import Sink, kafka_topic

latest = Sink({view}, to=kafka_topic("{topic}"))
SINKS = (latest,)
"""
_PARTITIONS: Final = 2


def command(setting: Setting) -> ContestantCommand:
    """The speed layer and the sinks of a project with the view and one sink."""
    sink_setting = _with_sink_topic(setting)
    # The sink would create it, too, and refuses the ordinary topic that a contestant is given; the reader starts before.
    kafka.create(setting.connection, [sink_setting.output], Settings(kafka=KafkaSettings(partitions=_PARTITIONS)), compacted=True)
    folder = tandem.project(setting)
    with (folder / "definitions.py").open("a", encoding="utf-8") as definitions:
        definitions.write(_SINK.format(view=VIEW, topic=sink_setting.output))
    return ContestantCommand((sys.executable, script("tandem_sink"), str(folder)), _environment(setting))


def _environment(setting: Setting) -> Mapping[str, str]:
    """The hot tail runs as beside `up`, where the speed layer has run before sinks start."""
    return {**tandem.environment(setting), "TANDEM_SERVING_HOT": "on"}


def _with_sink_topic(setting: Setting) -> Setting:
    """The same with the topic of the sink."""
    return replace(setting, output=f"{setting.output}-compacted")


TANDEM_SINK: Final = Contestant(
    name="tandem-sink",
    version=tandem.version,
    settings=tandem.settings,
    command=command,
    output=lambda setting: LastValues(_with_sink_topic(setting)),
    reader=lambda setting: follow_topic(_with_sink_topic(setting)),
    ready=tandem.ready,
)
