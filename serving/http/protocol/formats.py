"""Rows as bytes, in the format that a client accepts.

| format       | rows                                             | provenance                                       |
| ------------ | ------------------------------------------------ | ------------------------------------------------ |
| JSON         | as views.kernel.rows writes them, in one document       | in the document                                  |
| NDJSON       | the same, one a line                             | headers                                          |
| CSV          | the same; a text in quotes, NULL nothing at all  | headers                                          |
| Arrow stream | typed, with kind, unit and doc of each column    | headers, and the schema's metadata               |

The headers are `Tandem-Provenance` (JSON), `Tandem-Total` and, where there is another page, `Tandem-Next`. Rows of JSON and
NDJSON say what holds of them alone in `_exactness`; of CSV and Arrow what the provenance says of marked rows may hold of any.

A spreadsheet runs a cell of CSV as a formula if it begins with one of `FORMULAS`, and anybody may have sent that text. With
`escaped` such a cell gets an apostrophe before it. Cells of numbers stay as they are.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa

from serving.http.protocol.media_types import ARROW, CSV, JSON, MEDIA, NDJSON
from serving.http.protocol.problem import Problem
from serving.read.provenance import Provenance
from serving.read.touched_rows import marked
from views.exactness import Name
from views.kernel.rows import utc_text, written

FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a spreadsheet takes for a formula's beginning; the last four are full-width forms, which some take alike."""

_LONGEST_ACCEPT: Final = 1000
_ANY: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as JSON has them, in the table's order, of whichever columns it has."""
    columns = [written(table.column(place).combine_chunks(), field) for place, field in enumerate(table.schema)]
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Page:
    """Rows of an answer that go out together; `said` has what describes them, by name, for the document.

    `headers` say the same beside formats that have no room for it. Of a `single` row the document has `row`, null without one.
    `rows_of` makes of the table what JSON has; `touched` are the rows that say `marks`.
    `escaped` is about CSV.
    """

    table: pa.Table
    said: Mapping[str, Any]
    headers: Mapping[str, str]
    single: bool = False
    rows_of: Callable[[pa.Table], list[dict[str, Any]]] = rows_of
    touched: pa.ChunkedArray | None = None
    marks: Sequence[Name] = ()
    escaped: bool = False

    def rows(self) -> list[dict[str, Any]]:
        """The rows as JSON has them, each with what holds of it alone."""
        return marked(self.rows_of(self.table), self.touched, self.marks)


def accepted(accept: str | None) -> str:
    """The media type that a client likes best of those there are; JSON if it likes any. Raises Problem 406 (RFC 9110, 12.5.1)."""
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
    """The provenance as JSON: as `query` prints it, but for the age, which is another one at each look; `newest` stays.

    Who is `bound` to some rows is not told what is counted over all of the view's, nor positions, which count the source's.
    """
    told = of.to_json(now=of.newest or _ANY)
    del told["age_s"]
    told["newest"] = None if of.newest is None else utc_text(of.newest)
    if not bound:
        return told
    hidden = dict.fromkeys(("cut", "realtime", "rejected", "after_final", "ahead"))
    gaps = [{**gap, "ranges": None, "reason": None} for gap in told["gaps"]]
    return {**told, **hidden, "exactness": of.exactness.without_counts().to_json(), "gaps": gaps}


def headers_of(told: Mapping[str, Any], *, total: int, following: str | None) -> dict[str, str]:
    """What goes beside the rows of formats that are rows alone."""
    found = {"Tandem-Provenance": json.dumps(told, separators=(",", ":")), "Tandem-Total": str(total)}
    return found if following is None else {**found, "Tandem-Next": following}


def refuse_other(media: str, *, escaped: bool) -> None:
    """Refuse to escape in a format that has nothing to escape. Raises Problem 400."""
    if escaped and media != CSV:
        raise Problem(400, f"escape_formulas=true needs {CSV}, but the answer would be {media}; send Accept: {CSV}")


def rendered(page: Page, media: str) -> bytes:
    """The page's bytes: the same ones for the same page."""
    return _RENDER[media](page)


def _json(page: Page) -> bytes:
    rows = page.rows()
    found = {"row": rows[0] if rows else None} if page.single else {"rows": rows}
    first = {"view": page.said["view"]} if "view" in page.said else {}
    return msgspec.json.encode({**first, **found, **page.said})


def _ndjson(page: Page) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in page.rows())


def _csv(page: Page) -> bytes:
    """RFC 4180. Python's own writer cannot tell NULL from an empty text before 3.12, and Arrow's knows no lists."""
    names = page.table.schema.names
    # Decimals are texts in JSON and numbers in a spreadsheet; other numbers are not texts at all.
    texts = [page.escaped and not pa.types.is_decimal(of) for of in page.table.schema.types]
    lines = [",".join(_cell(name, escaped=page.escaped) for name in names)]
    lines += (
        ",".join(_cell(value, escaped=text) for value, text in zip(row.values(), texts, strict=True))
        for row in page.rows_of(page.table)
    )
    return ("\r\n".join(lines) + "\r\n").encode()


def _cell(value: Any, *, escaped: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        before = "'" if escaped and value.startswith(FORMULAS) else ""
        return f'"{before}{value.replace(chr(34), chr(34) * 2)}"'
    if isinstance(value, list | dict):
        return _cell(msgspec.json.encode(value).decode(), escaped=escaped)
    return json.dumps(value)


def _arrow(page: Page) -> bytes:
    sink = pa.BufferOutputStream()
    table = page.table.replace_schema_metadata({"provenance": json.dumps(page.said["provenance"])})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    content: bytes = sink.getvalue().to_pybytes()
    return content


_RENDER: Final[dict[str, Callable[[Page], bytes]]] = {JSON: _json, NDJSON: _ndjson, CSV: _csv, ARROW: _arrow}
