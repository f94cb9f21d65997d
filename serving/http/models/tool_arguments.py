"""The arguments of tools: each becomes a parameter of the tool's route, under the same name."""

import json
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tandem.serving.http.models.rows import Scalar
from tandem.serving.http.protocol.parameters import KEYS, Pairs

ViewName = Annotated[
    str, Field(pattern=r"^[^/]+$", max_length=200, description="A view's name, as list_views has it.", examples=["page_traffic"])
]
KeyValues = Annotated[
    dict[str, Scalar],
    Field(description="Values of the view's keys; null is the key NULL.", examples=[{"page": "/a"}]),
]
WindowStart = Annotated[
    str | None,
    Field(description="The window's start (ISO 8601; without a zone in the view's). Leave it out for a view of all time."),
]
MeasureNames = Annotated[list[str] | None, Field(min_length=1, description="Names of measures. Default: all.")]


class NoArguments(BaseModel):
    """A tool without arguments."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)

    def parameters(self) -> Pairs:
        """The parameters of the request."""
        named = self.model_dump(by_alias=True, exclude_none=True, exclude={"view", "keys"})
        return tuple((name, _text(value)) for name, value in named.items())


class ViewArguments(NoArguments):
    """A view."""

    view: ViewName


class _KeyArguments(ViewArguments):
    keys: KeyValues = {}

    def parameters(self) -> Pairs:
        """The parameters, with one for each key."""
        values = ((f"{KEYS}{name}", _text(value)) for name, value in self.keys.items() if value is not None)
        nulls = (("null", name) for name, value in self.keys.items() if value is None)
        return (*super().parameters(), *values, *nulls)


class _Rows(_KeyArguments):
    measures: MeasureNames = None
    start: Annotated[str | None, Field(alias="from", description="Windows that start at or after this time (ISO 8601).")] = None
    to: Annotated[str | None, Field(description="Windows that start before this time.")] = None
    publication: Annotated[int | None, Field(ge=1, description="Answer from the batch views of this publication.")] = None


class RowsArguments(_Rows):
    """A question for a page of rows."""

    order: Annotated[
        list[str] | None, Field(min_length=1, description="Columns to sort by; a leading minus sorts descending.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=1000, description="Maximum number of rows.")] = 100
    cursor: Annotated[str | None, Field(description="`next` of the previous page, with the same arguments.")] = None


class ReceiptArguments(_Rows):
    """A question whose rows the receipt covers."""

    limit: Annotated[int, Field(ge=1, description="The receipt is refused if there are more rows.")] = 10_000


class WhyArguments(_KeyArguments):
    """A row: all keys of the view, and its window."""

    measures: MeasureNames = None
    window: WindowStart = None
    listed: Annotated[int | None, Field(ge=0, le=1000, description="Number of events to list. Default: first and last.")] = None
    publication: Annotated[int | None, Field(ge=1, description="The row as this publication has it.")] = None


class WhyChangedArguments(_KeyArguments):
    """Rows, and two moments."""

    window: Annotated[str | None, Field(description="Only the window that starts then. Default: all windows.")] = None
    before: Annotated[
        str,
        Field(description="The earlier moment: a publication's number, a time, a position or a receipt as JSON.", examples=["2"]),
    ]
    after: Annotated[str, Field(description="The later moment, likewise, or `now`.")] = "now"


class ChangesArguments(_KeyArguments):
    """A question for the rows that changed since a token."""

    measures: MeasureNames = None
    since: Annotated[str | None, Field(description="`token` of the last answer. Without it the answer is the current token.")] = (
        None
    )
    where: Annotated[str | None, Field(description="Only rows for which this condition is true.", examples=["n > 100"])] = None


class StatementArguments(NoArguments):
    """A SQL statement."""

    statement: Annotated[
        str,
        Field(
            min_length=1, description="One SELECT in DuckDB's SQL, in which each view is a table.", examples=["SELECT 1 AS one"]
        ),
    ]


class PlanArguments(NoArguments):
    """Nothing for a new plan, or the id of a plan in progress."""

    run: Annotated[str | None, Field(pattern=r"^[0-9a-f-]{36}$", description="`id` of a plan that was still running.")] = None


def _text(value: Scalar | list[str]) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)
