"""A set of events, each with its place in the one order of all events: the state of measures that read sequences.

Each event of the set has the fields of PLACE and what a measure reads of it. Folding keeps a set and merging unites sets, so a
late event takes its place among the others, and the answer is computed from all of them when it is presented.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from tandem.views.measures.measure import EVENT_TIME, LOG_ORDER, State
from tandem.views.measures.states.distinct_set import distinct_set
from tandem.views.source.event import TIMESTAMP
from tandem.views.sql.engine import quoted

PLACE: Final = {"time": TIMESTAMP, "generation": pa.int64(), "partition": pa.int64(), "offset": pa.int64()}
"""The fields that order events, with their types; `offset` holds the index, too, where a value holds several events."""

PLACE_INPUTS: Final = (EVENT_TIME, *LOG_ORDER)
"""The inputs for PLACE, which a measure that keeps events has first."""


def event_set(reads: Mapping[str, tuple[pa.DataType, str]], *, where: str, limit: int) -> State:
    """The events for which `where` is true, in order; the empty list as soon as there are more than `limit`, for good.

    It is null without an event. `reads` are further fields, with their types and SQL over the inputs. PLACE_INPUTS come first.
    """
    fields = {name: (type_, f"{{{number}}}") for number, (name, type_) in enumerate(PLACE.items())} | dict(reads)
    packed = ", ".join(f"{quoted(name)} := {sql}" for name, (_, sql) in fields.items())
    item = pa.struct([(name, type_) for name, (type_, _) in fields.items()])
    return distinct_set("events", item, f"struct_pack({packed})", where=where, limit=limit)
