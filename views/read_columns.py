"""Which columns of the events a view needs: the others are not read from the files."""

from tandem.views.composite.dated import pieces
from tandem.views.source.log_order import GENERATION
from tandem.views.source.source import INDEX, METADATA_SCHEMA, POSITION_SCHEMA, events_schema
from tandem.views.view import View, bind


def columns(view: View) -> frozenset[str]:
    """The event time, the fields that the view's expressions read, and the log columns that its window needs.

    All columns if the source prepares its events, because it is unknown what a function of the project reads.
    """
    if view.source.prepare is not None:
        return frozenset(events_schema(view.source).names)
    return frozenset[str]().union(*(_columns(piece.view) for piece in pieces(view)))


def _columns(view: View) -> frozenset[str]:
    bound = bind(view)
    expressions = (*bound.expressions, *((bound.where,) if bound.where is not None else ()))
    found = frozenset({view.source.time_column, *bound.placement.events.reads}).union(
        *(expression.fields for expression in expressions)
    )
    # An event's generation is not stored: its topic gives it.
    return found if GENERATION.name not in found else found - {GENERATION.name} | {"_topic_id"}


def sees_positions(view: View) -> bool:
    """Whether the view's answer depends on which of several equal duplicates is counted."""
    return not columns(view).isdisjoint((*POSITION_SCHEMA.names, INDEX, *METADATA_SCHEMA.names))
