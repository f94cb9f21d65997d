"""Parameters of requests, with their OpenAPI descriptions. The parameters of a request for rows are one value."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict

from tandem.serving.read.outputs import Late, Output
from tandem.serving.read.provenance import Layer
from tandem.serving.read.selection import BadSelection

Pairs = tuple[tuple[str, str], ...]
"""Names and values of parameters, in order."""

LONGEST: Final = 8000
"""Characters of a parameter that may have the offsets of every partition."""

KEYS: Final = "key."
"""The prefix of parameters that are values of a view's keys."""

View = Annotated[str, Path(description="The view's name.", examples=["page_traffic"], max_length=200)]
Source = Annotated[str, Path(description="The source's name.", examples=["requests"], max_length=200)]
From = Annotated[
    str | None,
    Query(
        alias="from", description="Windows that start at or after this time (ISO 8601, in the view's zone unless it names one)."
    ),
]
To = Annotated[str | None, Query(description="Windows that start before this time.")]
Measures = Annotated[
    str | None, Query(description="Names of measures, separated by commas. Default: all.", examples=["hits,bytes"])
]
Order = Annotated[
    str | None,
    Query(
        description="Columns, separated by commas; a leading minus sorts descending. Ties are ordered by window start and keys.",
        examples=["-hits"],
    ),
]
Limit = Annotated[int, Query(ge=1, description="Maximum number of rows per page; the server has an upper limit of its own.")]
CursorText = Annotated[
    str | None,
    Query(
        alias="cursor",
        description="`next` of the previous page: continues there, on the same snapshot, at any server of the project.",
        max_length=LONGEST,
    ),
]
Publication = Annotated[
    int | None, Query(ge=1, lt=2**31, description="Answer from the batch views of this publication, if it is retained.")
]
AsOf = Annotated[str | None, Query(description="Answer from the batch views of the publication that was live at this time.")]
At = Annotated[
    str | None,
    Query(description="Of a table: the versions that were valid at this event time (ISO 8601), in place of the latest ones."),
]
LayerName = Annotated[
    Layer | None,
    Query(
        description="batch: events below the cut. speed: events from the cut on. merged: both. Default merged; batch for a "
        "past publication."
    ),
]
MinPosition = Annotated[
    str | None,
    Query(
        description="Wait until the answer counts this position, a JSON object such as `realtime` in provenance. 504 if that "
        "takes too long.",
        examples=['{"T": {"0": 31}}'],
        max_length=LONGEST,
    ),
]
MaxAge = Annotated[
    str | None,
    Query(
        description="Wait until the newest counted event was appended within this time (90s, 2h). 504 if that takes too long, "
        "or if no events are sent.",
        examples=["90s"],
        max_length=20,
    ),
]
Release = Annotated[
    int | None,
    Query(
        ge=1,
        lt=2**31,
        description="Answer from this release as if it were promoted now: it is ready, or stands beside the live one. Needs the "
        "right `release`. Default: the live release.",
    ),
]
Null = Annotated[list[str], Query(description="A key that must be NULL; may be repeated.")]
Window = Annotated[
    str | None,
    Query(description="The window's start (ISO 8601; without a zone in the view's). Leave it out for a view of all time."),
]

Since = Annotated[
    str | None, Query(description="Send changes since this token, the id of an event. Default: from now on.", max_length=LONGEST)
]

Where = Annotated[
    str | None,
    Query(
        description="Rows for which this condition is true: comparisons of columns and constants with AND, OR, NOT, BETWEEN, IN, "
        "IS NULL, `+`, `-` and `*`, of at most 400 characters.",
        examples=["n > 100"],
        max_length=LONGEST,
    ),
]

OutputName = Annotated[
    Output,
    Query(
        description="`update`: rows with their present values. `append`: each row once, when its window is final; later changes "
        "of it are in `late`. `changes`: each row before and after. Without a token the last two begin with all their rows."
    ),
]
LateRows = Annotated[
    Late, Query(description="With `output=append`: send the later changes of rows, or `drop` them and send their number.")
]

WhenSent = Annotated[
    str,
    Query(
        alias="when",
        description="After which commits to send an event: `commit`, each; `every:10s`, when the log's time passes a multiple of "
        "this; `delay:10s`, this long after the first change; `count:100`, after this many records, or after 60 s. `every` and "
        "`delay` are of at most 60 s.",
        examples=["every:10s"],
        max_length=20,
    ),
]

Escaped = Annotated[
    bool,
    Query(
        alias="escape_formulas",
        description="For CSV in spreadsheets: put an apostrophe before each text or column name that begins with `=`, `+`, "
        "`-`, `@`, a tab or a line end, so that it does not run as a formula. Numbers do not change.",
    ),
]

KEY_VALUES: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": KEYS,
            "in": "query",
            "description": "Rows with these values of keys, each as `key.NAME=VALUE`, in the format of rows.",
            "required": False,
            "style": "form",
            "explode": True,
            "schema": {
                "type": "object",
                "propertyNames": {"pattern": r"^key\.[A-Za-z][A-Za-z0-9_]*$"},
                "additionalProperties": {"type": "string"},
                "examples": [{"key.page": "/a"}],
            },
        }
    ]
}
"""The parameters that are named after the view's keys."""


class _Parameters(BaseModel):
    """The parameters of every request for rows."""

    model_config = ConfigDict(extra="allow", frozen=True)  # parameters `key.NAME`; the gate refuses all other unknown ones

    null: Null = []
    measures: Measures = None
    publication: Publication = None
    as_of: AsOf = None
    at: At = None
    layer: LayerName = None
    min_position: MinPosition = None
    max_age: MaxAge = None
    release: Release = None
    escaped: Escaped = False

    @property
    def keys(self) -> list[str]:
        """The keys as `NAME=VALUE`, `NAME` alone for NULL."""
        return key_texts((self.model_extra or {}).items(), self.null)


class RowsParameters(_Parameters):
    """The parameters of a request for a page of rows."""

    start: From = None
    to: To = None
    order: Order = None
    limit: Limit = 1000
    cursor: CursorText = None


class RowParameters(_Parameters):
    """The parameters of a request for one row."""

    window: Window = None


def key_texts(parameters: Iterable[tuple[str, str]], null: Iterable[str]) -> list[str]:
    """The keys among a request's parameters as `NAME=VALUE`, and as `NAME` alone those that must be NULL.

    Raises BadSelection for a value where the name of a key has to be.
    """
    given = [f"{name.removeprefix(KEYS)}={value}" for name, value in parameters if name.startswith(KEYS)]
    names = [*null]
    if (wrong := next((name for name in names if "=" in name), None)) is not None:
        raise BadSelection(f"invalid null={wrong!r}; expected the name of a key, such as null=city, and values as key.city=OSLO")
    return [*given, *names]
