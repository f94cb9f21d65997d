"""Values of several events in formats with one event per line."""

from tandem.views.source.format import Listed, Parse


def by_line(parse: Parse) -> Listed:
    """Reads a value with one event per line; a line feed at the end does not start another line."""
    return Listed(lambda value: value.removesuffix(b"\n").split(b"\n"), parse)
