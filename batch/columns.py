"""Which columns of the events a view looks at: the others are not read from the files."""

from views.view import View, bind


def columns(view: View) -> frozenset[str]:
    """The event time, the fields that the view's expressions read, and what its window has to know of the log."""
    bound = bind(view)
    expressions = (*bound.expressions, *((bound.where,) if bound.where is not None else ()))
    return frozenset({view.source.event_time, *bound.placement.reads}).union(*(expression.fields for expression in expressions))
