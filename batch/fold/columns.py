"""Which columns of the events a view looks at: the others are not read from the files."""

from views.source.log_order import GENERATION
from views.source.source import INDEX, METADATA_SCHEMA, POSITION_SCHEMA, events_schema
from views.view import View, bind


def columns(view: View) -> frozenset[str]:
    """The event time, the fields that the view's expressions read, and what its window has to know of the log.

    All columns if the source prepares its events: what a function of the project reads is not known.
    """
    if view.source.prepare is not None:
        return frozenset(events_schema(view.source).names)
    bound = bind(view)
    expressions = (*bound.expressions, *((bound.where,) if bound.where is not None else ()))
    found = frozenset({view.source.event_time, *bound.placement.events.reads}).union(
        *(expression.fields for expression in expressions)
    )
    # What generation an event is of is not stored: its topic says it.
    return found if GENERATION.name not in found else found - {GENERATION.name} | {"_topic_id"}


def sees_positions(view: View) -> bool:
    """Whether it makes a difference which of several equal copies is counted."""
    return not columns(view).isdisjoint((*POSITION_SCHEMA.names, INDEX, *METADATA_SCHEMA.names))
