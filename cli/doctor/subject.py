"""The subject of the checks: one project on this machine at one time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from tandem.cli.command.call import Call
from tandem.cli.command.published_definitions import definitions
from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.kafka.source_topics import topics_there
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.views.source.source import Source


@dataclass(frozen=True)
class Subject:
    """A project and the time of the check. A property that is unavailable raises TandemError."""

    call: Call
    now: datetime

    @cached_property
    def settings(self) -> Settings:
        """The project's settings."""
        return self.call.settings()

    @cached_property
    def tables(self) -> Tables:
        """All tables of the project."""
        return Tables.of(self.settings)

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """The published sources, else the working tree's."""
        return definitions(self.call, self.tables).sources

    @cached_property
    def connection(self) -> kafka.BrokerConnection:
        """A connection to the broker; raises NoBroker."""
        return kafka.connect(broker.address(self.settings))

    @cached_property
    def topics(self) -> Mapping[str, kafka.Topic]:
        """The topics of all sources that exist, by name."""
        return topics_there(self.connection, self.sources.values())
