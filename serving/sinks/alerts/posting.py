"""One HTTP request to a receiver of alerts: it follows no redirect, and ends within a bound, however slow the answer is."""

import socket
import ssl
from collections.abc import Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Event, Timer
from urllib.parse import urlsplit

from tandem.views.errors import TandemError
from tandem.views.source.formats.schema_registry import address_fault


class AlertUndelivered(TandemError, code="alert-undelivered"):
    """A receiver of alerts cannot be reached, or has not accepted what was sent."""


def check_address(setting: str, address: str) -> None:
    """Raise TandemError for an address that is not one of HTTP, or that has a login, which would be printed."""
    if "@" in address:
        raise TandemError(f"the setting `{setting}` has a login in its address; write any other @ as %40")
    if fault := address_fault(address):
        raise TandemError(f"the setting `{setting}` {fault}")


def post(address: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float, ca_file: str) -> None:
    """Post a JSON document; returns once the receiver has answered 2xx. Raises AlertUndelivered."""
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
                status = connection.getresponse().status
            finally:
                end.cancel()
    except (OSError, HTTPException, ValueError) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise AlertUndelivered(f"{place} has not answered within {timeout_s:g} s") from error
        raise AlertUndelivered(f"{place} cannot be asked: {str(error) or type(error).__name__}") from error
    if 300 <= status < 400:
        raise AlertUndelivered(f"{place} answered {status}, a redirect, which is not followed; set the address to which it leads")
    if not 200 <= status < 300:
        raise AlertUndelivered(f"{place} answered {status}")


def _connection(place: str, timeout_s: float, ca_file: str) -> HTTPConnection:
    parts = urlsplit(place)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "http":
        return HTTPConnection(host, port, timeout=timeout_s)
    return HTTPSConnection(host, port, timeout=timeout_s, context=ssl.create_default_context(cafile=ca_file or None))


def _shut(open_socket: socket.socket, late: Event) -> None:
    late.set()
    with suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)
