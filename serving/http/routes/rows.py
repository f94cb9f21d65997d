"""Rows of views: a page, one row, the rows of many keys."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
from fastapi import APIRouter, Query, Request, Response

from tandem.serving.http.answer_cache.cache import AnswerCache
from tandem.serving.http.answer_cache.question import outside
from tandem.serving.http.models.openapi import rows as documented
from tandem.serving.http.models.rows import LookedDocument, LookupDocument, OneRowDocument, RowsDocument, Scalar
from tandem.serving.http.protocol.parameters import KEY_VALUES, Escaped, MinPosition, Release, RowParameters, RowsParameters
from tandem.serving.http.protocol.parameters import View as ViewName
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.answer_question import Found, ask, ask_fresh
from tandem.serving.http.queries.monotonic import monotonic_floor
from tandem.serving.http.queries.parse import lookup_question, parse_measures, question_of
from tandem.serving.http.queries.permitted import view_for
from tandem.serving.http.queries.receipt import with_receipt
from tandem.serving.http.queries.respond import respond
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import lane_of, principal_of, server_of
from tandem.serving.memory.index import Numbers
from tandem.serving.memory.key_values import fits
from tandem.serving.read.selection import BadSelection, parse_keys
from tandem.serving.read.touched_rows import any_touched, split
from tandem.views.arrow import arrays, python_values
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import View, state_schema

_OK: Final = 200
_FEW: Final = 1_000
"""Up to this many rows and keys are matched here: a statement of DuckDB takes 3 ms for one row, too."""
_READ: Final[dict[str, Any]] = {"x-verb": "read", **KEY_VALUES}

router = APIRouter(route_class=Gated, tags=["rows"])


@router.get("/views/{view}/rows", openapi_extra=_READ, response_model=RowsDocument, responses=documented(410))
async def rows(request: Request, view: ViewName, parameters: Annotated[RowsParameters, Query()]) -> Response:
    """Rows of a view, ordered by window start, then keys, NULL last, unless another order is requested.

    All pages of a cursor come from one snapshot, whatever is counted meanwhile; 410 once the snapshot has expired. With the
    header `Tandem-Receipt: 1` the response has a receipt of the answer in this header, if the page has all rows. With
    `Tandem-Monotonic: 1` the response has a value in this header; a request with it gets no older answer, from any server.
    """
    most = server_of(request).settings.max_rows
    if parameters.limit > most:
        raise Problem(400, f"limit={parameters.limit} is too large; the maximum is {most}")
    found = await ask(request, view, parameters)
    response = await respond(request, found, limit=parameters.limit, escaped=parameters.escaped)
    return await with_receipt(request, response, found, parameters, limit=parameters.limit)


@router.get("/views/{view}/row", openapi_extra=_READ, response_model=OneRowDocument, responses=documented(410))
async def row(request: Request, view: ViewName, parameters: Annotated[RowParameters, Query()]) -> Response:
    """The row of one key and window; `row` is null, or there is none in other formats, if certainly nothing was counted.

    With the header `Tandem-Receipt: 1` the response has a receipt of the answer in this header.
    """
    found = await ask(request, view, parameters)
    if found.answer.table.num_rows > 1:
        raise Problem(400, f"{found.answer.table.num_rows} windows of view {view!r} start at this time; request its rows")
    response = await respond(request, found, limit=None, escaped=parameters.escaped, single=True)
    _log_row(request, found, parameters, response)
    return await with_receipt(request, response, found, parameters)


@router.post(
    "/views/{view}/lookup",
    openapi_extra={"x-verb": "read"},
    response_model=LookedDocument,
    responses=documented(413, conditional=False),
)
async def lookup(
    request: Request,
    view: ViewName,
    body: LookupDocument,
    *,
    min_position: MinPosition = None,
    release: Release = None,
    escaped: Escaped = False,
) -> Response:
    """The rows that have any of many keys, at one snapshot, in the order of the keys.

    For a token that is restricted to rows all other keys are `hidden`, whether anything was counted for them or not.
    """
    server, principal = server_of(request), principal_of(request)
    most = server.settings.max_rows
    if len(body.keys) > most:
        raise Problem(400, f"the lookup has {len(body.keys)} keys; the limit is {most}")
    lane, floor = await lane_of(request, release), monotonic_floor(request)

    def looked_up(cache: AnswerCache) -> tuple[Found, dict[str, list[int]]]:
        of = view_for(cache.views(), view, principal)
        every = wanted(of, body.values())
        # Keys that the caller may not see are not looked up, so that not even the time of the answer reveals them.
        keys = visible(every, principal.rights.bound(of) or {})
        hidden = np.setdiff1d(every["_n"].to_numpy(), keys["_n"].to_numpy())
        question = lookup_question(of, principal, body)
        measures = parse_measures(of, None if body.measures is None else ",".join(body.measures))
        answer = cache.of_keys(question, keys)
        found = matched(of, answer.table, keys)
        tag = sha256(f"{answer.tag}{body.keys}".encode()).hexdigest()
        told = answer.provenance.of(touched=any_touched(split(found.rows)[1]))
        answer = replace(answer, table=found.rows, provenance=told, tag=tag, total=found.rows.num_rows)
        return Found(answer, measures, bool(principal.rights.rows)), {"absent": list(found.absent), "hidden": hidden.tolist()}

    if min_position is None and floor is None:
        found, without = await lane.ask(looked_up, by=str(principal))
    else:
        of = await lane.ask(lambda cache: view_for(cache.views(), view, principal), by=str(principal))
        fresh, without = await ask_fresh(
            server,
            lane,
            of,
            looked_up,
            by=str(principal),
            min_position=min_position,
            max_age=None,
            at_the_cut=body.layer == "batch",
            bound=bool(principal.rights.rows),
            floor=floor,
        )
        found = fresh.with_monotonic(request, floor)
    if found.answer.table.num_rows > most:
        raise Problem(
            400, f"these keys have {found.answer.table.num_rows} rows; the limit is {most}; narrow them with from and to"
        )
    response = await respond(request, found, limit=None, escaped=escaped, extra=without)
    if server.answers is not None and body.at is None and response.status_code == _OK:
        server.answers.rows(found.answer, found.measures)
    return response


def _log_row(request: Request, of: Found, parameters: RowParameters, response: Response) -> None:
    """Log the row that answers a request for one row, or its absence. Rows of a table at a time are left out."""
    server, answer = server_of(request), of.answer
    if server.answers is None or parameters.at is not None or response.status_code != _OK:
        return
    if answer.table.num_rows:
        server.answers.rows(answer, of.measures)
    else:
        asked = question_of(answer.view, principal_of(request), parameters, None).selection
        key = tuple(asked.keys[name].as_py() for name in answer.view.keys)
        server.answers.row(answer.view, (key, asked.start), None, of.measures, answer.provenance)


@dataclass(frozen=True)
class Matched:
    """The rows, ordered by the number of their key, and the numbers of the keys without a row."""

    rows: pa.Table
    absent: tuple[int, ...]


def wanted(view: View, keys: Sequence[Mapping[str, Scalar]]) -> pa.Table:
    """The keys as a table, with their number in `_n`. Raises BadSelection, which names the invalid key."""
    if not view.keys:
        raise BadSelection(f"view {view.name!r} has no keys to look up; request its rows")
    for number, key in enumerate(keys):
        if key.keys() != view.keys.keys():
            raise BadSelection(f"key {number} has {', '.join(key) or 'no values'}; expected {', '.join(view.keys)}")
    schema = state_schema(view)
    types = {name: schema.field(name).type for name in view.keys}
    columns = [
        python_values.array([_value(view, number, name, key[name], arrow) for number, key in enumerate(keys)], arrow)
        for name, arrow in types.items()
    ]
    return pa.table([*columns, arrays.from_numpy(np.arange(len(keys)), pa.int64())], [*types, "_n"])


def matched(view: View, rows: pa.Table, keys: pa.Table) -> Matched:
    """The rows whose keys are among those of `wanted`, in the order of the request; NULL matches NULL."""
    few = rows.num_rows + keys.num_rows <= _FEW
    numbers, places = (_matched_here if few else _joined)([*view.keys], rows, keys)
    absent = np.setdiff1d(keys["_n"].to_numpy(), numbers)
    return Matched(rows.take(arrays.from_numpy(places, pa.int64())), tuple(absent.tolist()))


def _matched_here(names: Sequence[str], rows: pa.Table, keys: pa.Table) -> tuple[Numbers, Numbers]:
    """The numbers of keys and the places of their rows, in this order."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(_values(rows, names)):
        found.setdefault(key, []).append(place)
    asked = zip(keys["_n"].to_pylist(), _values(keys, names), strict=True)
    pairs = np.array([(number, place) for number, key in asked for place in found.get(key, ())], np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _joined(names: Sequence[str], rows: pa.Table, keys: pa.Table) -> tuple[Numbers, Numbers]:
    """The same for any number of rows and keys."""
    numbered = pa.table([*(rows[name] for name in names), pa.array(np.arange(len(rows)))], [*names, "_i"])
    same = " AND ".join(f"_rows.{quoted(name)} IS NOT DISTINCT FROM _wanted.{quoted(name)}" for name in names)
    sql = f"SELECT _wanted._n, _rows._i FROM _wanted JOIN _rows ON {same} ORDER BY 1, 2"
    found = engine.query(sql, {"_rows": numbered, "_wanted": keys})
    return found["_n"].to_numpy(), found["_i"].to_numpy()


def _values(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def visible(keys: pa.Table, bound: Mapping[str, pa.Scalar]) -> pa.Table:
    """Those of `wanted` that are visible to a caller that is bound to values of keys."""
    seen = [not outside({name: keys[name][place] for name in bound}, bound) for place in range(len(keys))]
    return keys.filter(pa.array(seen, pa.bool_())) if bound else keys


def _value(view: View, number: int, name: str, value: Scalar, arrow: pa.DataType) -> Any:
    """The value of a key as Arrow returns it in Python. Raises BadSelection."""
    if value is None or fits(value, arrow):
        return value
    if isinstance(value, bool):  # whose text is also one of a key of text
        raise BadSelection(f"key {number}: invalid value {_text(value)} of key {name!r}; it has no boolean values")
    try:
        return parse_keys(view, [f"{name}={_text(value)}"])[name].as_py()
    except BadSelection as error:
        raise BadSelection(f"key {number}: {error}") from None


def _text(value: str | float | bool) -> str:  # noqa: FBT001 - a JSON value
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
