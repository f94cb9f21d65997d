"""JSON-RPC 2.0 as the Model Context Protocol sends it over HTTP: a body is one message, and the answer is one document.

| revision | how a client begins |
| --- | --- |
| 2025-06-18, 2025-11-25 | with `initialize`; later requests may name the revision in the header MCP-Protocol-Version |
| 2026-07-28 | at once: each request names revision and capabilities in `params._meta`, and repeats method and tool in headers |

Arrays of messages, which an earlier revision had, are refused.
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_REVISION: Final = -32022

WITH_HANDSHAKE: Final = ("2025-06-18", "2025-11-25")
STATELESS: Final = ("2026-07-28",)
"""Revisions without a handshake: each request is complete by itself."""
REVISIONS: Final = (*WITH_HANDSHAKE, *STATELESS)

VERSION_HEADER: Final = "mcp-protocol-version"
_METHOD_HEADER: Final = "mcp-method"
_NAME_HEADER: Final = "mcp-name"
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_BASE64: Final = "=?base64?"

_NOT_FOUND: Final = 404
_REFUSAL: Final = 400
_OK: Final = 200

Id = str | int | None


class RpcError(Exception):
    """A message without a result: the code of JSON-RPC, what is wrong and what would be valid, and `data` for programs."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data

    def status(self, *, stateless: bool) -> int:
        """The status of the response; `stateless` for a request of a revision without a handshake."""
        if self.code == METHOD_NOT_FOUND:
            return _NOT_FOUND if stateless else _OK
        return _OK if self.code == INVALID_PARAMS and not stateless else _REFUSAL


@dataclass(frozen=True)
class RpcMessage:
    """A request, or a notification, which has no id."""

    id: Id
    method: str
    params: Mapping[str, Any] = field(hash=False)

    @property
    def notifies(self) -> bool:
        """Whether nobody waits for an answer."""
        return self.id is None


def message_of(document: Any) -> RpcMessage:
    """The message of a body. Raises RpcError."""
    if isinstance(document, list):
        raise RpcError(INVALID_REQUEST, "the body is an array of messages; send each message as a request of its own")
    if not isinstance(document, dict) or document.get("jsonrpc") != "2.0" or not isinstance(document.get("method"), str):
        raise RpcError(
            INVALID_REQUEST, 'the body is not a JSON-RPC request; expected {"jsonrpc": "2.0", "id": 1, "method": "..."}'
        )
    number, params = document.get("id"), document.get("params", {})
    if "id" in document and (isinstance(number, bool) or not isinstance(number, str | int)):
        raise RpcError(INVALID_REQUEST, "the request's id is neither a text nor an integer")
    if not isinstance(params, dict) or not isinstance(params.get("_meta", {}), dict):
        raise RpcError(INVALID_REQUEST, "params, or _meta in it, is not an object")
    return RpcMessage(number, document["method"], params)


def is_stateless(message: RpcMessage, headers: Mapping[str, str]) -> bool:
    """Whether a message is of a revision without a handshake; names of headers are in lower case.

    Raises RpcError for an unknown revision, and if message and headers contradict each other.
    """
    header, meta = headers.get(VERSION_HEADER), message.params.get("_meta", {})
    named = meta.get(_VERSION)
    if header is None and named is None:
        return False
    if header is not None and named is not None and header != named:
        raise RpcError(HEADER_MISMATCH, f"the header {VERSION_HEADER} differs from params._meta; send the same revision in both")
    revision = named if header is None else header
    if revision not in REVISIONS:
        more = {"supported": [*REVISIONS], "requested": revision}
        raise RpcError(UNSUPPORTED_REVISION, f"unsupported revision of the protocol; supported: {', '.join(REVISIONS)}", more)
    if revision in WITH_HANDSHAKE or message.notifies:
        return revision in STATELESS
    if header is None:
        raise RpcError(HEADER_MISMATCH, f"the header {VERSION_HEADER} is missing; send it as params._meta has it")
    for name in (_VERSION, _CAPABILITIES):
        if name not in meta:
            raise RpcError(INVALID_PARAMS, f"params._meta lacks {name!r}, which every request of revision {revision} has")
    _compare(headers, _METHOD_HEADER, message.method)
    if message.method == "tools/call" and isinstance(message.params.get("name"), str):
        _compare(headers, _NAME_HEADER, message.params["name"])
    return True


def _compare(headers: Mapping[str, str], name: str, body: str) -> None:
    if _plain(headers.get(name, "")) != body:
        raise RpcError(HEADER_MISMATCH, f"the header {name} differs from the body; send the same in both")


def _plain(header: str) -> str | None:
    """The text of a header, decoded if it is in base64; None if that is invalid."""
    if not header.startswith(_BASE64):
        return header
    try:
        return b64decode(header.removeprefix(_BASE64).removesuffix("?="), validate=True).decode()
    except (Error, UnicodeDecodeError):
        return None


def result_document(of: Id, result: Mapping[str, Any], *, stateless: bool) -> dict[str, Any]:
    """The answer to a request; `stateless` if the request is of a revision without a handshake."""
    return {"jsonrpc": "2.0", "id": of, "result": {**result, **({"resultType": "complete"} if stateless else {})}}


def error_document(of: Id, error: RpcError) -> dict[str, Any]:
    """The answer to a request that fails; the id is null if it could not be read."""
    more = {} if error.data is None else {"data": error.data}
    return {"jsonrpc": "2.0", "id": of, "error": {"code": error.code, "message": str(error)[:1000], **more}}
