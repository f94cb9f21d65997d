"""Formats with one event per line, and their values of several events."""

from typing import ClassVar

from tandem.views.source.event import Event
from tandem.views.source.format import Listed, Parse


class EventOfLine:
    """A decoder whose `parser` reads one line."""

    header: ClassVar[bool] = False

    def parser(self, event: type[Event]) -> Parse:
        """A function from one line to one event; raises DefinitionError if format and event type do not fit."""
        raise NotImplementedError

    def listed(self, event: type[Event]) -> Listed:
        """Values with an event in each line; raises DefinitionError as `parser` does."""
        return by_line(self.parser(event))


def by_line(parse: Parse) -> Listed:
    """Reads a value with one event per line; a line feed at the end does not start another line."""
    return Listed(lambda value: value.removesuffix(b"\n").split(b"\n"), parse)
