"""The Model Context Protocol: tools over the routes of this server, for programs with a language model (docs/mcp.md)."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from tandem.infra.folders import tandem_version
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.protocol import problem
from tandem.serving.http.protocol.json_rpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REVISIONS,
    STATELESS,
    VERSION_HEADER,
    WITH_HANDSHAKE,
    Id,
    RpcError,
    RpcMessage,
    error_document,
    is_stateless,
    message_of,
    result_document,
)
from tandem.serving.http.protocol.media_types import JSON
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.receipt import HEADER as RECEIPT
from tandem.serving.http.queries.tools import TOOLS, Tool, tools_for
from tandem.serving.http.requests.gate import Gated, withdraw
from tandem.serving.http.requests.inner_request import InnerAnswer, InnerRequest, answer_of
from tandem.serving.http.requests.proper import parsed
from tandem.serving.http.requests.server import LARGE, principal_of, server_of
from tandem.views.errors import listed

_LOOPBACK: Final = re.compile(r"(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_PLAN_S: Final = 10.0
"""The longest time that a call waits for a plan."""
_ACCEPTED: Final = 202
_REFUSAL: Final = 400
_INSTRUCTIONS: Final = (
    "Views of an event log, in which each event counts once. Begin with list_views, then describe_view; rows or sql have the "
    "numbers. Every answer states in provenance.exactness.says how exact it is: repeat that with the number. why has the events "
    "behind a row."
)
_MESSAGE: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
_ERRORS: Final = {JSON: {"schema": {"type": "object"}}}

router = APIRouter(route_class=Gated, tags=["tools"])


def _responses() -> dict[int | str, dict[str, Any]]:
    refusals = problems(404, 406, 413, 415)
    for status in (400, 404):
        refusals[status]["content"] |= _ERRORS
    return {
        200: {"content": {JSON: {"schema": {"type": "object"}}}, "description": "The answer to a request, by JSON-RPC."},
        _ACCEPTED: {"description": "A notification has been received."},
        **refusals,
    }


@router.post(
    "/mcp",
    openapi_extra={
        "x-verb": "known",
        "requestBody": {"required": True, "content": {JSON: {"schema": {"type": "object"}, "example": _MESSAGE}}},
    },
    responses=_responses(),
)
async def mcp(request: Request) -> Response:
    """One message of the Model Context Protocol (streamable HTTP, without sessions): tools that call this server's other routes.

    A call of a tool is a request to its route, with the rights and limits of the token. `tools/list` has the tools for which
    the token has the right. Requests of web pages are refused, except those of this machine's own.
    """
    _refuse_pages(request)
    _refuse_media(request)
    of: Id = None
    stateless = request.headers.get(VERSION_HEADER) in STATELESS
    try:
        message = _message(await request.body())
        of, stateless = message.id, is_stateless(message, request.headers)
        if message.notifies:
            return Response(status_code=_ACCEPTED)
        document = result_document(of, await _result(request, message, stateless=stateless), stateless=stateless)
    except RpcError as error:
        return _respond(error_document(of, error), error.status(stateless=stateless))
    return _respond(document)


def _respond(document: Mapping[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, {"Cache-Control": "no-store"}, JSON)


def _message(body: bytes) -> RpcMessage:
    try:
        document = parsed(body)
        if _SURROGATE.search(body):
            json.dumps(document, ensure_ascii=False).encode()
    except Problem as refusal:
        raise RpcError(PARSE_ERROR, refusal.detail) from refusal
    except UnicodeEncodeError as error:
        raise RpcError(PARSE_ERROR, "the body has half of a surrogate pair, which is not text") from error
    return message_of(document)


def _refuse_pages(request: Request) -> None:
    """Refuse what a web page sends, unless it comes from this machine under a name of this machine.

    A browser names the page's origin. A page of a foreign site may have its name point to this server (DNS rebinding): then
    origin and host agree, but they are not names of this machine.
    """
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if origin is None:
        return
    if origin.partition("://")[2] != host or not _LOOPBACK.fullmatch(host):
        raise Problem(403, "a web page may not use /mcp; send the request without the header Origin")


def _refuse_media(request: Request) -> None:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != JSON:
        raise Problem(415, f"unsupported Content-Type {media!r}; send {JSON}")
    accept = request.headers.get("accept", "*/*")
    if not any(media in accept for media in (JSON, "application/*", "*/*")):
        raise Problem(406, f"unsupported Accept: {accept}; the answer is {JSON}")


async def _result(request: Request, message: RpcMessage, *, stateless: bool) -> dict[str, Any]:
    """The result of a request. Raises RpcError."""
    private = {"ttlMs": 0, "cacheScope": "private"} if stateless else {}
    match message.method, stateless:
        case ("initialize", False):
            asked = message.params.get("protocolVersion")
            revision = asked if asked in WITH_HANDSHAKE else WITH_HANDSHAKE[-1]
            return {"protocolVersion": revision, "serverInfo": _server(), **_about()}
        case ("server/discover", True):
            return {
                "supportedVersions": [*REVISIONS],
                "_meta": {"io.modelcontextprotocol/serverInfo": _server()},
                **_about(),
                **private,
            }
        case ("ping", False):
            return {}
        case ("tools/list", _):
            return {"tools": [tool.document() for tool in tools_for(principal_of(request)).values()], **private}
        case ("tools/call", _):
            return await _call(request, message.params)
    methods = ("tools/list", "tools/call", *(("server/discover",) if stateless else ("initialize", "ping")))
    raise RpcError(METHOD_NOT_FOUND, f"unknown method {message.method[:100]!r}; methods: {', '.join(methods)}")


def _server() -> dict[str, str]:
    return {"name": "tandem", "version": tandem_version()}


def _about() -> dict[str, Any]:
    return {"capabilities": {"tools": {}}, "instructions": _INSTRUCTIONS}


async def _call(request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a tool's route, as text. An error, such as a missing right, is the text of its problem document."""
    name, arguments = params.get("name"), params.get("arguments")
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None:
        names = listed(str(name), tools_for(principal_of(request)))
        raise RpcError(INVALID_PARAMS, f"unknown tool {name!r}; tools of this token: {names}")
    try:
        asked = tool.arguments.model_validate({} if arguments is None else arguments)
    except ValidationError as error:
        detail = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in error.errors())
        return _text(msgspec.json.encode(problem.document(_REFUSAL, detail)), fails=True)
    withdraw(request)  # the route's request takes the place of this one
    answer = await _answer(request, tool, tool.request(asked))
    size, fails = len(answer.body), answer.status >= _REFUSAL
    body = answer.headers[RECEIPT.lower()].encode() if RECEIPT.lower() in answer.headers else answer.body
    if size <= LARGE:
        return _text(body, fails=fails)
    return await server_of(request).work(principal_of(request), lambda: _text(body, fails=fails))


async def _answer(request: Request, tool: Tool, asked: InnerRequest) -> InnerAnswer:
    app = request.app.framework
    answer = await answer_of(app, request, asked)
    if tool.name != "plan" or answer.status >= _REFUSAL:
        return answer
    run = asked.path.rpartition("/")[2] if asked.method == "GET" else str(msgspec.json.decode(answer.body)["run"])
    active = server_of(request).runs.find(run)
    if active is not None:
        await asyncio.to_thread(active.over.wait, min(_PLAN_S, server_of(request).settings.timeout_s / 2))
    return await answer_of(app, request, InnerRequest("GET", f"/runs/{run}"))


def _text(body: bytes, *, fails: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": body.decode()}], "isError": fails}
