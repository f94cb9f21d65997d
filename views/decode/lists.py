"""Values that hold a list of events: how they are parsed, with one outcome for all events or one for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tandem.views.source.fields.reasons import Reject, refusal, within
from tandem.views.source.format import Listed, Parse, Searched


@dataclass(frozen=True)
class ListReading:
    """The outcomes of a list's events, in order: each is an event or the Reject of that event alone.

    `parts` are what the events were read from. `shown` turns a part into bytes for a person.
    """

    outcomes: list[Any]
    parts: Sequence[Any]
    shown: Callable[[Any], bytes]

    @property
    def has_events(self) -> bool:
        """Whether any outcome is an event."""
        return any(not isinstance(outcome, Reject) for outcome in self.outcomes)

    def sample(self, index: int) -> bytes:
        """The bytes of one event of the list."""
        return self.shown(self.parts[index])


def whole(listed: Listed, most: int) -> Parse:
    """A function from one value to the list of its events, 1 to `most` of them, in their order.

    The first fault rejects the record; the reject names the event that has it.
    """

    def parse_all(parts: Sequence[Any]) -> list[Any]:
        events = []
        for index, part in enumerate(parts):
            try:
                events.append(listed.parse(part))
            except BaseException as error:
                raise within(refusal(error), index) from error
        return events

    return _split(listed, most, parse_all, whole)


def one_by_one(listed: Listed, most: int) -> Parse:
    """A function from one value to the ListReading of its 1 to `most` events. Only a value that is no such list is rejected.

    A part that is an exception is the reject of its event: a function of the project returns it in place of an event.
    """

    def parse_each(parts: Sequence[Any]) -> ListReading:
        outcomes: list[Any] = []
        for part in parts:
            try:
                outcomes.append(refusal(part) if isinstance(part, BaseException) else listed.parse(part))
            except BaseException as error:  # noqa: BLE001  the project's own code may raise anything, SystemExit too
                outcomes.append(refusal(error))
        return ListReading(outcomes, parts, listed.shown)

    return _split(listed, most, parse_each, one_by_one)


def _split(listed: Listed, most: int, read: Callable[[Sequence[Any]], Any], again: Callable[[Listed, int], Parse]) -> Parse:
    """The function that splits a value, checks the number of its parts and reads them; `again` builds it for another Listed."""
    if isinstance(listed.parse, Searched):
        parse, plain = (again(replace(listed, parse=one), most) for one in (listed.parse.parse, listed.parse.plain))
        return Searched(parse, plain, listed.parse.search)

    def parse_list(*record: Any) -> Any:
        parts = listed.split(*record)
        if not 1 <= len(parts) <= most:
            raise Reject("length", f"{len(parts)} events in one value; it holds 1 to {most}")
        return read(parts)

    return parse_list
