"""An earlier version of a source's event type, and the upgrade of its events."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

from tandem.views.errors import DefinitionError
from tandem.views.source.decoder import Decoder, check_decoder, defined_by_name
from tandem.views.source.event import Event, event_fields
from tandem.views.source.formats.json import JSON

Upgrade = Callable[[Any], Event]
"""From an event of the earlier type to one of the source's."""


@dataclass(frozen=True)
class Version:
    """An earlier event type of a source, whose records the current event type does not read.

    `event` is the earlier type, `decoder` how its records are read, and `upgrade` a function of the project from an event of
    that type to one of the source's; it must be pure. Raises DefinitionError.
    """

    event: type[Event]
    upgrade: Upgrade
    decoder: Decoder = JSON

    def __post_init__(self) -> None:
        """Check all three."""
        event_fields(self.event)
        check_decoder(self.decoder)
        if not defined_by_name(self.upgrade):
            raise DefinitionError(f"upgrade {self.upgrade!r} must be a module-level, named function")
        if len(signature(self.upgrade).parameters) != 1:
            name = self.event.__name__
            raise DefinitionError(f"upgrade {self.upgrade.__name__} takes {signature(self.upgrade)}; it takes one {name}")
