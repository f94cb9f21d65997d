"""One signed HTTP request to a receiver: it follows no redirect, and ends within a bound, however slow the answer is.

The headers of a signed request are those of Standard Webhooks 1.0.0: `webhook-id`, the same in each attempt, `webhook-timestamp`,
and `webhook-signature`, the HMAC-SHA256 of both and the body.
"""

import base64
import binascii
import hashlib
import hmac
import socket
import ssl
from collections.abc import Mapping
from contextlib import closing, suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from threading import Event, Timer
from typing import Final
from urllib.parse import urlsplit

from tandem.views.errors import TandemError
from tandem.views.source.formats.schema_registry import address_fault

MOST_RETRY_AFTER_S: Final = 3600.0
"""Seconds that a receiver's answer may ask to wait before the next attempt."""

_PREFIX: Final = "whsec_"


class Undelivered(TandemError, code="undelivered"):
    """A receiver of alerts or messages cannot be reached, or has not accepted what was sent.

    `retry_after_s` are the seconds for which the receiver has asked.
    """

    retry_after_s = 0.0


def wait_s(error: BaseException, pause: float) -> float:
    """Seconds until the next attempt after an error: `pause`, unless the receiver has asked for more."""
    return max(pause, error.retry_after_s) if isinstance(error, Undelivered) else pause


def check_address(what: str, address: str) -> None:
    """Raise TandemError for an address that is not one of HTTP, or that has a login.

    The sentence has nothing of the address, which may be a secret.
    """
    if "@" in address:
        raise TandemError(f"{what} has a login in its address; write any other @ as %40")
    if address_fault(address):
        raise TandemError(f"{what} is not an address such as https://example.org/rows, with a space as %20")


def key_of(what: str, secret: str) -> bytes:
    """The key of a secret: base64 after `whsec_`, as the standard has it; else the text itself. Raises TandemError."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise TandemError(f"{what} begins with whsec_, and the rest of it is not base64") from None
    if not key:
        raise TandemError(f"{what} is whsec_ without a key, so anybody could sign")
    return key


def signature_headers(number: str, timestamp: int, body: bytes, key: bytes) -> dict[str, str]:
    """The headers that identify and sign a request."""
    text = b".".join((number.encode(), str(timestamp).encode(), body))
    signature = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return {"webhook-id": number, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}


def post(address: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float, ca_file: str) -> None:
    """Post a JSON document; returns once the receiver has answered 2xx. Raises Undelivered."""
    parts = urlsplit(address)
    place, late = f"{parts.scheme}://{parts.netloc}", Event()
    try:
        with closing(_connection(place, timeout_s, ca_file)) as connection:
            connection.connect()
            # A timeout of the socket bounds each read, and an answer may have many.
            end = Timer(timeout_s, _shut, (connection.sock, late))
            end.daemon = True
            end.start()
            try:
                target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
                connection.request("POST", target, body, {"Content-Type": "application/json", **headers})
                answer = connection.getresponse()
            finally:
                end.cancel()
    except (OSError, HTTPException, ValueError) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise Undelivered(f"{place} has not answered within {timeout_s:g} s") from error
        raise Undelivered(f"{place} cannot be asked: {str(error) or type(error).__name__}") from error
    status = answer.status
    if 300 <= status < 400:
        raise Undelivered(f"{place} answered {status}, a redirect, which is not followed; set the address to which it leads")
    if not 200 <= status < 300:
        refusal = Undelivered(f"{place} answered {status}")
        refusal.retry_after_s = min(MOST_RETRY_AFTER_S, _retry_after_s(answer.headers))
        raise refusal


def _retry_after_s(headers: HTTPMessage) -> float:
    """Seconds for which an answer asks: a number, or a time by the clock of the answer's date; 0 if it asks for none."""
    asked = (headers["Retry-After"] or "").strip()
    if asked.isdecimal():
        return float(asked)
    try:
        return max(0.0, (parsedate_to_datetime(asked) - parsedate_to_datetime(headers["Date"] or "")).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _connection(place: str, timeout_s: float, ca_file: str) -> HTTPConnection:
    parts = urlsplit(place)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "http":
        return HTTPConnection(host, port, timeout=timeout_s)
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise Undelivered(f"{ca_file}, the file of trusted authorities, cannot be read: {error.strerror or error}") from error
    return HTTPSConnection(host, port, timeout=timeout_s, context=context)


def _shut(open_socket: socket.socket, late: Event) -> None:
    late.set()
    with suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)
