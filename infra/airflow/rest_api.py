"""The REST API of a local Airflow, with the login of its only user."""

import json
import urllib.request
from pathlib import Path
from typing import Any, Final

_SECONDS: Final = 60


def ask(address: str, passwords: Path, path: str) -> Any:
    """The API's answer to a GET. Raises OSError, also urllib's HTTPError."""
    user, password = next(iter(json.loads(passwords.read_text("utf-8")).items()))
    token = _request(f"{address}/auth/token", {"username": user, "password": password})["access_token"]
    return _request(f"{address}/api/v2{path}", token=token)


def health(address: str) -> dict[str, Any]:
    """The health that each part reports; needs no password. Raises OSError."""
    found: dict[str, Any] = _request(f"{address}/api/v2/monitor/health")
    return found


def _request(address: str, document: Any = None, *, token: str = "") -> Any:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(  # noqa: S310 - the address of our own Airflow
        address, None if document is None else json.dumps(document).encode(), headers
    )
    # No proxy: it is this machine.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_SECONDS) as answer:
        return json.loads(answer.read())
