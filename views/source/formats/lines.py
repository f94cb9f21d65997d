"""Values of several events where a format writes one event a line."""

from views.source.format import Listed, Parse


def by_line(parse: Parse) -> Listed:
    """Read a value with an event in each line; a line feed at the end does not start another line."""
    return Listed(lambda value: value.removesuffix(b"\n").split(b"\n"), parse)
