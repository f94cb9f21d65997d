"""A topic of Kafka as the target of a sink."""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from tandem.views.errors import DefinitionError
from tandem.views.sinks.sink import SinkTarget

_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}", re.ASCII)


@dataclass(frozen=True)
class SinkTopic(SinkTarget):
    """The topic of a sink, by its name at the broker of the project."""

    outputs: ClassVar[tuple[str, ...]] = ("update", "append", "changes")

    name: str

    def __str__(self) -> str:
        return f"kafka_topic({self.name!r})"


def kafka_topic(name: str) -> SinkTopic:
    """A topic at the project's broker as the target of a sink, which the sink creates: the rows by key, or messages about them.

    With `output="update"` the topic is compacted: a record's key is the row's keys and window, its value the row, and a row that
    is gone is a tombstone.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(f"kafka_topic({name!r}): expected the name of a topic: 1 to 249 of a-z A-Z 0-9 . _ -")
    return SinkTopic(name)
