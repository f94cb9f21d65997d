"""Rows as bytes, in the format that a client accepts.

| format       | rows                                              | provenance                          |
| ------------ | ------------------------------------------------- | ----------------------------------- |
| JSON         | as tandem.views.kernel.rows writes them, in one document | in the document                     |
| NDJSON       | the same, one per line                            | headers                             |
| CSV          | the same; texts in quotes, NULL as nothing        | headers                             |
| Arrow stream | typed, with kind, unit and doc of each column     | headers, and the schema's metadata  |

A view with calendar windows has a zone: JSON and NDJSON have the bounds of windows in UTC, and in `_local` those in the zone; CSV
and Arrow have them in the zone.

The headers are `Tandem-Provenance` (JSON), `Tandem-Total` and, if there is another page, `Tandem-Next`. In JSON and NDJSON a row
lists its own reasons in `_exactness`; in CSV and Arrow the reasons of marked rows may hold of any row.

With `escaped` a cell of CSV that a spreadsheet would run as a formula gets an apostrophe before it (serving/read/row_bytes.py).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa

from tandem.serving.http.protocol.media_types import ARROW, CSV, JSON, MEDIA, NDJSON
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.read import row_bytes
from tandem.serving.read.provenance import Provenance
from tandem.serving.read.touched_rows import marked
from tandem.serving.read.window_zone import rows_in, rows_with_local, table_in
from tandem.views.exactness import Name
from tandem.views.instant import utc_text
from tandem.views.kernel.rows import written

_LONGEST_ACCEPT: Final = 1000
_ANY: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as JSON objects, in the table's order, with whatever columns it has."""
    if not table.num_rows:
        return []
    columns = [written(table.column(place).combine_chunks(), field) for place, field in enumerate(table.schema)]
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Page:
    """Rows of an answer that are sent together; `said` has the other fields of the document.

    `headers` carry the same for formats without room for it. With `single` the document has `row`, null without one. `rows_of`
    makes JSON objects of the table; the `touched` rows list `marks`. `escaped` applies to CSV. `zone` is that of
    the view's windows.
    """

    table: pa.Table
    said: Mapping[str, Any]
    headers: Mapping[str, str]
    single: bool = False
    rows_of: Callable[[pa.Table], list[dict[str, Any]]] = rows_of
    touched: pa.ChunkedArray | None = None
    marks: Sequence[Name] = ()
    escaped: bool = False
    zone: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """The rows as JSON objects, each with its own reasons, and with its window in the zone."""
        return rows_with_local(marked(self.rows_of(self.table), self.touched, self.marks), self.zone)


def accepted(accept: str | None) -> str:
    """The supported media type that the client prefers; JSON if it accepts any. Raises Problem 406 (RFC 9110, 12.5.1)."""
    best, weight = None, 0.0
    wanted = dict(_ranges((accept or "*/*")[:_LONGEST_ACCEPT]))
    for media in MEDIA:
        kind = media.partition("/")[0]
        quality = next((wanted[one] for one in (media, f"{kind}/*", "*/*") if one in wanted), 0.0)
        if quality > weight:
            best, weight = media, quality
    if best is None:
        raise Problem(406, f"unsupported Accept: {accept}; formats of rows: {', '.join(MEDIA)}")
    return best


def _ranges(accept: str) -> list[tuple[str, float]]:
    found = []
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        try:
            found.append((media, min(1.0, max(0.0, float(quality)))))
        except ValueError:
            found.append((media, 0.0))
    return found


def provenance(of: Provenance, *, bound: bool) -> dict[str, Any]:
    """The provenance as JSON: as `query` prints it, with `newest` instead of the age, which would differ at each request.

    A caller that is `bound` to rows gets no positions and no counts, because both are of all rows. No caller gets a rollup's
    parents, which it may not know.
    """
    told = of.to_json(now=of.newest or _ANY)
    del told["age_s"]
    told.pop("rollup_of", None)
    told["newest"] = None if of.newest is None else utc_text(of.newest)
    for name, each in of.sources.items():
        del told["sources"][name]["age_s"]
        told["sources"][name]["newest"] = None if each.newest is None else utc_text(each.newest)
    if not bound:
        return told
    told.pop("sources", None)
    told.pop("tables", None)
    hidden = dict.fromkeys(("cut", "realtime", "hot", "start", "history", "rejected", "after_final", "ahead"))
    gaps = [{**gap, "ranges": None, "reason": None} for gap in told["gaps"]]
    return {**told, **hidden, "exactness": of.exactness.without_counts().to_json(), "gaps": gaps}


def headers_of(told: Mapping[str, Any], *, total: int, following: str | None) -> dict[str, str]:
    """The headers of formats that contain only rows."""
    found = {"Tandem-Provenance": json.dumps(told, separators=(",", ":")), "Tandem-Total": str(total)}
    return found if following is None else {**found, "Tandem-Next": following}


def refuse_other(media: str, *, escaped: bool) -> None:
    """Refuse to escape formulas in a format other than CSV. Raises Problem 400."""
    if escaped and media != CSV:
        raise Problem(400, f"escape_formulas=true needs {CSV}, but the answer would be {media}; send Accept: {CSV}")


def rendered(page: Page, media: str) -> bytes:
    """The page's bytes; equal pages have equal bytes."""
    return _RENDER[media](page)


def _json(page: Page) -> bytes:
    rows = page.rows()
    found = {"row": rows[0] if rows else None} if page.single else {"rows": rows}
    first = {"view": page.said["view"]} if "view" in page.said else {}
    return msgspec.json.encode({**first, **found, **page.said})


def _ndjson(page: Page) -> bytes:
    return row_bytes.ndjson(page.rows())


def _csv(page: Page) -> bytes:
    # Decimals are texts in JSON and numbers in a spreadsheet; other numbers are not texts at all.
    texts = [not pa.types.is_decimal(of) for of in page.table.schema.types] if page.escaped else None
    rows = page.rows_of(page.table)
    cells = rows if page.zone is None else rows_in(rows, page.zone)
    return row_bytes.csv(page.table.schema.names, (list(row.values()) for row in cells), escaped=texts)


def _arrow(page: Page) -> bytes:
    table = page.table if page.zone is None else table_in(page.table, page.zone)
    return row_bytes.arrow_stream(table, {"provenance": json.dumps(page.said["provenance"])})


_RENDER: Final[dict[str, Callable[[Page], bytes]]] = {JSON: _json, NDJSON: _ndjson, CSV: _csv, ARROW: _arrow}
