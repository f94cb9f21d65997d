"""The tools of the Model Context Protocol: each is a route, and its arguments are the route's parameters. No tool writes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Any, Final

import msgspec

from tandem.serving.access.rights import Principal, Verb
from tandem.serving.http.models.tool_arguments import (
    ChangesArguments,
    NoArguments,
    PlanArguments,
    ReceiptArguments,
    RowsArguments,
    StatementArguments,
    ViewArguments,
    WhyArguments,
    WhyChangedArguments,
)
from tandem.serving.http.queries.receipt import HEADER
from tandem.serving.http.requests.inner_request import InnerRequest


@dataclass(frozen=True)
class Tool:
    """A tool: its purpose, the right that its route needs, its arguments, and the request that these make.

    Tokens that are restricted to rows are not offered what answers `of_all_rows`, and what they call is refused by its route.
    """

    name: str
    title: str
    doc: str
    needs: Verb
    arguments: type[NoArguments]
    request: Callable[[Any], InnerRequest] = field(repr=False)
    of_all_rows: bool = False

    def document(self) -> dict[str, Any]:
        """The tool as `tools/list` has it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": cleandoc(self.doc),
            "inputSchema": self.arguments.model_json_schema(),
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }


def _of_view(path: str, headers: Mapping[str, str] | None = None) -> Callable[[Any], InnerRequest]:
    return lambda asked: InnerRequest("GET", path.format(view=asked.view), asked.parameters(), headers=headers or {})


def _sql(asked: StatementArguments) -> InnerRequest:
    return InnerRequest("POST", "/sql", body=msgspec.json.encode({"statement": asked.statement}))


def _plan(asked: PlanArguments) -> InnerRequest:
    return InnerRequest("POST", "/runs/plan", body=b"{}") if asked.run is None else InnerRequest("GET", f"/runs/{asked.run}")


TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool(
            "list_views",
            "List views",
            """List the views that the token may read: what each counts, its keys, window and measures. Begin here.""",
            "read",
            NoArguments,
            lambda asked: InnerRequest("GET", "/views", asked.parameters()),
        ),
        Tool(
            "describe_view",
            "Describe a view",
            """Show one view: its definition, and each column with its kind, unit, documentation and, in words, why values are
            not exact; up to which position of the log it counts.""",
            "read",
            ViewArguments,
            _of_view("/views/{view}"),
        ),
        Tool(
            "rows",
            "Rows of a view",
            """Rows of a view, ordered by window start, then keys, unless another order is requested. `provenance.exactness.says`
            states how exact they are; a row lists its own reasons in `_exactness`. `next` is the cursor of the next page.""",
            "read",
            RowsArguments,
            _of_view("/views/{view}/rows"),
        ),
        Tool(
            "sql",
            "SQL over views",
            """The rows of one SELECT in DuckDB's SQL over the views that the token may read, at one snapshot. It runs in a
            sandbox with limits of time, memory and rows.""",
            "sql",
            StatementArguments,
            _sql,
            of_all_rows=True,
        ),
        Tool(
            "changes_since",
            "Rows that changed",
            """The rows that changed since a token, with their present values, and the keys of deleted rows. The first call,
            without `since`, returns the current token. If the token has expired, read all rows again.""",
            "read",
            ChangesArguments,
            _of_view("/views/{view}/changes"),
        ),
        Tool(
            "why",
            "Why a row is what it is",
            """The events behind one row: their positions and the values read, duplicates, late and rejected ones, and the row
            computed again from them (`agrees`); since when it is final, and what may still change it. Give all keys of the view
            and the window's start.""",
            "read",
            WhyArguments,
            _of_view("/views/{view}/why"),
        ),
        Tool(
            "why_changed",
            "Why rows changed",
            """What made rows change between two moments: for counts and exact totals the difference is split into new and late
            events, duplicates, definition, tables, accepted gaps and erasure, and the parts add up to it exactly.""",
            "read",
            WhyChangedArguments,
            _of_view("/views/{view}/why-changed"),
        ),
        Tool(
            "receipt",
            "Receipt of an answer",
            """A receipt of all rows of a question: positions, release, fingerprint, versions and a digest of the rows.
            `tandem receipt check` computes the answer again from it, also a year later.""",
            "read",
            ReceiptArguments,
            _of_view("/views/{view}/rows", {HEADER: "1"}),
            of_all_rows=True,
        ),
        Tool(
            "plan",
            "Plan of the project",
            """How the definitions in the project's folder differ from the published ones, as `tandem plan` shows it. While
            `state` is `running`, call it again with its `id` as `run`.""",
            "admin",
            PlanArguments,
            _plan,
        ),
    )
}


def tools_for(principal: Principal) -> dict[str, Tool]:
    """The tools whose routes answer the principal."""
    rights = principal.rights
    return {name: tool for name, tool in TOOLS.items() if tool.needs in rights.verbs and not (rights.rows and tool.of_all_rows)}
