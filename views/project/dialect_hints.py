"""The hints on a project's expressions: which operations have another meaning in Spark or PostgreSQL, and where they are."""

from collections.abc import Iterator

from tandem.views.measures.derived import Derived
from tandem.views.project.project import Project
from tandem.views.sql.dialect_hints import DialectHint, hint, operations


def hints(project: Project) -> tuple[DialectHint, ...]:
    """A hint for each operation that means something else in Spark or PostgreSQL, with the places that use it, by operation."""
    places: dict[str, dict[str, None]] = {}
    for place, text in _expressions(project):
        for operation in operations(text):
            places.setdefault(operation, {})[place] = None
    hinted = ((operation, hint(operation), tuple(used)) for operation, used in sorted(places.items()))
    return tuple(DialectHint(operation, text, used) for operation, text, used in hinted if text is not None)


def _expressions(project: Project) -> Iterator[tuple[str, str]]:
    """Every expression of the project after its place."""
    for name, source in project.sources.items():
        if source.key is not None:
            yield f"source {name}, key", source.key
    for name, view in project.views.items():
        if view.where is not None:
            yield f"view {name}, where", view.where
        yield from ((f"view {name}, key {key}", text) for key, text in view.keys.items())
        yield from ((f"view {name}, window", text) for text in view.window.inputs)
        for label, measure in view.measures.items():
            texts = (measure.expression,) if isinstance(measure, Derived) else measure.inputs
            yield from ((f"view {name}, {label}", text) for text in texts)
