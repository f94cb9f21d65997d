"""A receipt of an answer, in a header of the response."""

from typing import Final

from fastapi import Request, Response

from tandem.serving.http.protocol.parameters import RowParameters, RowsParameters
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.answer_question import Found
from tandem.serving.http.queries.parse import question_of
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.serving.read.outcome import Value
from tandem.serving.read.touched_rows import split
from tandem.serving.why.receipt import receipt_of

HEADER: Final = "Tandem-Receipt"
"""With the value 1 in a request, the response has the receipt in it."""

_OK: Final = 200


async def with_receipt(
    request: Request, response: Response, of: Found, parameters: RowsParameters | RowParameters, *, limit: int | None = None
) -> Response:
    """The response with the receipt that the request asks for. Raises Problem, InvalidReceipt."""
    wanted = request.headers.get(HEADER)
    if wanted is None or response.status_code != _OK:
        return response
    if wanted != "1":
        raise Problem(400, f"invalid header {HEADER}: {wanted[:20]!r}; send 1")
    if of.bound:
        raise Problem(403, "a receipt has positions of all rows; the token is restricted to some")
    server, principal, answer = server_of(request), principal_of(request), of.answer
    if of.given or answer.table.num_rows < answer.total or (limit is not None and answer.total > limit):
        raise Problem(400, f"a receipt is of all rows, and this answer has {answer.total}; raise limit, or narrow it")
    past = None if parameters.publication is None and parameters.as_of is None else answer.provenance.publication
    selection = question_of(answer.view, principal, parameters, past).selection
    rows, _ = split(answer.table)
    whole = Value(answer.view, rows, rows.num_rows, answer.provenance)
    receipt = await server.work(principal, lambda: receipt_of(server.tables, whole, selection))
    response.headers[HEADER] = receipt.line().decode().rstrip()
    return response
