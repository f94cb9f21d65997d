"""Parameters of questions, with what the OpenAPI document says of them."""

from typing import Annotated, Any, Final

from fastapi import Path, Query

from serving.provenance import Layer

View = Annotated[str, Path(description="The view's name.", examples=["page_traffic"], max_length=200)]
Source = Annotated[str, Path(description="The source's name.", examples=["requests"], max_length=200)]
From = Annotated[
    str | None,
    Query(alias="from", description="Windows that start at or after this time (ISO 8601, UTC unless it names a zone)."),
]
To = Annotated[str | None, Query(description="Windows that start before this time.")]
Measures = Annotated[str | None, Query(description="Names of measures by comma; all without it.", examples=["hits,bytes"])]
Order = Annotated[
    str | None,
    Query(description="Columns by comma, each with a minus if it descends; then by window start and keys.", examples=["-hits"]),
]
Limit = Annotated[int, Query(ge=1, description="Most rows of a page; the server has a bound of its own.")]
CursorText = Annotated[
    str | None,
    Query(alias="cursor", description="`next` of the page before: goes on there, on the same snapshot.", max_length=400),
]
Publication = Annotated[
    int | None, Query(ge=1, lt=2**31, description="What this publication has below its cut (layer batch), while it is kept.")
]
AsOf = Annotated[str | None, Query(description="The same of the publication that was live at this time.")]
LayerName = Annotated[
    Layer | None,
    Query(description="What to count: the log below the cut, the log from the cut on, or both; both unless of the past."),
]
MinPosition = Annotated[
    str | None,
    Query(
        description="Wait until the answer counts this position, a JSON object as `realtime` in provenance has it; else 504.",
        examples=['{"T": {"0": 31}}'],
        max_length=8000,
    ),
]
MaxAge = Annotated[
    str | None,
    Query(
        description="Wait until the newest counted event was appended at most so long ago (90s, 2h); else 504. "
        "Where nothing is sent nothing is fresh.",
        examples=["90s"],
        max_length=20,
    ),
]
Null = Annotated[list[str], Query(description="Keys whose value is to be NULL; may be repeated.")]
Window = Annotated[str | None, Query(description="The window's start (ISO 8601); none for a view that counts all time.")]

Since = Annotated[
    str | None, Query(description="Changes since this token, the id of an event; from now on without one.", max_length=8000)
]

Escaped = Annotated[
    bool,
    Query(
        alias="escape_formulas",
        description="Of CSV, for spreadsheets: put an apostrophe before each text, also a column's name, that begins with "
        "`=`, `+`, `-`, `@`, a tab or a line end, so that it is not run as a formula. Numbers stay numbers.",
    ),
]

KEY_VALUES: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": "key.",
            "in": "query",
            "description": "Rows with these values of keys, each as `key.NAME=VALUE`, written as rows have them.",
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
"""The parameters whose names are the view's keys'."""
