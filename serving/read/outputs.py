"""The outputs of a reader of changes, and its rows as an envelope with before and after.

update     rows with their present values, and the keys and windows of rows that are gone
append     a row once, when its window is final; a later change of it is late
changes    each row before and after, as Debezium's envelope has them
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

from tandem.serving.read.selection import BadSelection
from tandem.views.view import View, bind

Output = Literal["update", "append", "changes"]
OUTPUTS: Final[tuple[Output, ...]] = get_args(Output)
Late = Literal["send", "drop"]
LATE: Final[tuple[Late, ...]] = get_args(Late)

Row = Mapping[str, Any]


def check_output(view: View, output: str, late: str) -> None:
    """Raise BadSelection for an output that the view cannot have."""
    if output not in OUTPUTS:
        raise BadSelection(f"unknown output {output!r}; write one of {', '.join(OUTPUTS)}")
    if late not in LATE:
        raise BadSelection(f"late={late} is unknown; write one of {', '.join(LATE)}")
    if late != LATE[0] and output != "append":
        raise BadSelection(f"late={late} is for the output append; output {output!r} has no late rows")
    placement = bind(view).placement
    if output == "append" and not placement.in_order and placement.timing.ends is None:
        raise BadSelection(
            f"output append sends a row when its window is final, and rows of view {view.name!r} are of all time; "
            "use update or changes"
        )


def envelopes(place: Sequence[str], before: Sequence[Row], after: Sequence[Row], *, first: bool) -> list[dict[str, Any]]:
    """Rows before and after as `op`, `before` and `after`, matched by the columns that identify a row.

    `op` is c for a new row, u for a changed one, d for a deleted one, and r for a row of the `first` update, a complete snapshot.
    """
    past = {tuple(row[name] for name in place): row for row in before}
    envelopes = []
    for row in after:
        earlier = past.pop(tuple(row[name] for name in place), None)
        envelopes.append({"op": "r" if first else "c" if earlier is None else "u", "before": earlier, "after": row})
    return envelopes + [{"op": "d", "before": row, "after": None} for row in past.values()]
