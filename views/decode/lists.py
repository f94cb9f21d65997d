"""Values that hold several events."""

from typing import Any

from tandem.views.source.fields.reasons import Reject, refusal, within
from tandem.views.source.format import Listed, Parse


def bounded(listed: Listed, most: int) -> Parse:
    """A function from one value to the list of its events, 1 to `most` of them, in their order.

    The first fault rejects the record; the reject names the event that has it.
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
