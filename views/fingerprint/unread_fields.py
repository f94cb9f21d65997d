"""Optional fields that a source's event gained, and the views that read none of them.

Such a field cannot turn a reject into an event. It can only reject a record that holds it with another type, twice in one
object, or beyond what its column takes. Proof, for the decoders in `_monotone`:

* The decoder divides the value as before, into the same parts of a list, and reads each declared field by itself.
* The event type with the field makes every check of the event type without it, of the same texts: JSON syntax is checked of
  unknown keys too, more declared keys may stand only once, and a CSV row is compared with the same columns.
* No code of the project runs that could see the field, and no earlier version takes what the event type rejects.
* An event type that forbids unknown fields is excluded.
* Event time, identity, metadata and `record_filter` never read the field.

So the records and events accepted with the field are a subset of those accepted without it. If their numbers are equal, they are
the same, and equal in all other fields. Records are compared too, because a list may count or be rejected whole. Over equal
events a view that does not read the field has equal states. A `prepare` sees whole events, so it is excluded.
"""

from collections.abc import Iterator
from types import FunctionType

from tandem.views.fingerprint.event_meaning import event_meaning
from tandem.views.fingerprint.hashed_parts import source_meaning, view_meaning
from tandem.views.fingerprint.part_tree import Difference, Meaning, differences
from tandem.views.source.event import event_fields
from tandem.views.source.formats.csv import Csv
from tandem.views.source.formats.json import Json
from tandem.views.source.source import Source
from tandem.views.view import View

_FIELDS = ("decoder", "event", "fields")


def unread_fields(before: View, after: View) -> tuple[str, ...]:
    """The optional fields that the event of the view's source gained, if nothing else changed and the view reads none of them.

    Empty if anything else differs, or if a reject could have become an event: then the view has to be computed.
    """
    if not _monotone(before.source) or not _monotone(after.source):
        return ()
    in_source = list(_told(source_meaning(before.source), source_meaning(after.source)))
    in_view = list(_told(view_meaning(before), view_meaning(after)))
    added = {each.path for each in in_source}
    if any(each.how != "added" or each.path[:-1] != _FIELDS for each in in_source):
        return ()
    if {each.path for each in in_view} != {("source", *path) for path in added}:
        return ()
    gained = [field for field in event_fields(after.source.event) if (*_FIELDS, field.key) in added]
    if any(field.required or isinstance(field.factory, FunctionType) for field in gained):
        return ()
    return tuple(sorted(field.name for field in gained))


def _told(before: Meaning, after: Meaning) -> Iterator[Difference]:
    return (each for each in differences(before, after) if each.how != "rewritten")


def _monotone(source: Source) -> bool:
    """Whether one more optional field certainly makes no event of a reject, and does not change other fields of an event."""
    config = source.event.__struct_config__
    by_name = isinstance(source.decoder, Json | Csv)
    ignores = not config.array_like and not config.forbid_unknown_fields
    own_code = bool(event_meaning(source.event).parts["code"].parts) or source.prepare is not None
    return by_name and ignores and not own_code and not source.versions
