"""How long a source keeps records: which sources can let records go."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tandem.views.errors import DefinitionError

if TYPE_CHECKING:
    from tandem.views.source.source import Source


def check_keep(source: "Source") -> None:
    """Raise DefinitionError for an invalid `keep`, or where an event may need records that are older than its window."""
    keep: Any = source.keep
    if keep is None:
        return
    if not isinstance(keep, timedelta) or keep <= timedelta(0):
        raise DefinitionError(f"keep {keep!r} is not a positive timedelta, such as timedelta(days=400)")
    if source.identity and not source.identity_has_time:
        raise DefinitionError(
            f"keep {keep} needs an identity that spans one event time: with any time an event may be a duplicate of each earlier "
            "record, so all records stay"
        )
    if source.prepare is not None:
        raise DefinitionError(
            f"keep {keep} needs events that count in the windows of their own time, but prepare {source.prepare.__name__} may "
            "change it, so all records stay"
        )
