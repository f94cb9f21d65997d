"""The names of a source's topics: given one by one, or by a pattern that new topics may match later."""

import re
from dataclasses import dataclass

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_INTERNAL = "__"


@dataclass(frozen=True, repr=False)
class TopicPattern:
    """A regular expression of Python. Every topic matches whose whole name it describes; names that begin with `__` never do."""

    text: str

    def __post_init__(self) -> None:
        example = "such as pattern('orders-.*')"
        if not isinstance(self.text, str) or not self.text:
            raise DefinitionError(f"pattern {self.text!r} is not a text with a regular expression of topic names, {example}")
        try:
            re.compile(self.text)
        except (re.error, OverflowError, RecursionError) as error:
            raise DefinitionError(f"pattern {self.text!r} is not a regular expression: {error}; write one, {example}") from error

    def matches(self, name: str) -> bool:
        """Whether a topic of this name is one of the source's."""
        return not name.startswith(_INTERNAL) and re.fullmatch(self.text, name) is not None

    def __repr__(self) -> str:
        return call("pattern", self.text)


def pattern(text: str) -> TopicPattern:
    """All topics whose whole name matches a regular expression, for `Source(topic=pattern("orders-.*"))`.

    A topic that is created later joins at its beginning. Kafka's own topics and others whose name begins with `__` never match.
    """
    return TopicPattern(text)


def check_topics(topic: object) -> None:
    """Raise DefinitionError unless this is a topic's name, a tuple of distinct names, or a pattern."""
    if isinstance(topic, TopicPattern):
        return
    names = (topic,) if isinstance(topic, str) else topic
    if not isinstance(names, tuple) or not names or len(set(names)) < len(names):
        raise DefinitionError(
            f"topic {topic!r} must be a topic name or a tuple of distinct topic names, such as ('web', 'shop'), "
            "or a pattern, such as pattern('orders-.*')"
        )
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (".", ".."):
            raise DefinitionError(f"topic {name!r} is not a name that Kafka takes: 1 to 249 of the characters a-z A-Z 0-9 . _ -")
