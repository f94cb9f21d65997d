"""Values that hold several events, and formats that write one event a line."""

from typing import Any

from views.decode.fields.reasons import Reject, refusal, within
from views.source.decoder import Listed, Parse


def bounded(listed: Listed, most: int) -> Parse:
    """A function from one value to the list of its events, 1 to `most` of them, in their order.

    The first fault is the record's, told with the event that has it.
    """

    def parse(*record: Any) -> list[Any]:
        parts = listed.split(*record)
        if not 1 <= len(parts) <= most:
            raise Reject("length", f"{len(parts)} events in one value; it holds 1 to {most}")
        events = []
        for index, part in enumerate(parts):
            try:
                events.append(listed.parse(part))
            except BaseException as error:
                raise within(refusal(error), index) from error
        return events

    return parse


def by_line(parse: Parse) -> Listed:
    """Values with an event in each line; a line feed at the end begins no line."""
    return Listed(lambda value: value.removesuffix(b"\n").split(b"\n"), parse)
