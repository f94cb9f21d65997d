"""A sink's definition as the rows that it wants and a target; what is refused before it runs."""

from pathlib import Path

from tandem.infra.settings import Settings
from tandem.infra.storage.resolve import is_local
from tandem.ledger.delta.addresses import Tables
from tandem.serving.read.row_filter import RowsWanted, row_filter
from tandem.serving.sinks.delta import DeltaTarget, SinkRefused, delta_schema, open_target
from tandem.views.sink import Sink
from tandem.views.view import View, answer_schema


def rows_of(sink: Sink) -> RowsWanted:
    """The rows of the view that the target has."""
    return RowsWanted(sink.keys, sink.where)


def check_sink(sink: Sink, view: View, settings: Settings, folder: Path) -> None:
    """Raise SinkRefused for a type that the target lacks and for a folder of the project's own tables, BadSelection for bad rows.

    Nothing is read of the target; `folder` is the project's.
    """
    row_filter(view, rows_of(sink))
    delta_schema(sink.name, answer_schema(view))
    address, root = _absolute(sink, folder), Tables.of(settings).root
    if f"{address}/".startswith(f"{root}/") or f"{root}/".startswith(f"{address}/"):
        raise SinkRefused(f"sink {sink.name!r}: {address} is a folder of the project's own tables, in {root}; name another")


def target_of(sink: Sink, settings: Settings, folder: Path) -> DeltaTarget:
    """The target of a sink. Raises Unreadable."""
    return open_target(sink.name, _absolute(sink, folder), Tables.of(settings))


def _absolute(sink: Sink, folder: Path) -> str:
    """The address of the target; a folder is relative to the project's."""
    address = sink.to.address
    return str((folder / Path(address).expanduser()).resolve()) if is_local(address) else address
