"""The server of the campaign's project, queried as by any client."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

_TIMEOUT_S = 30.0
_PAGE = 1000


class NoAnswer(Exception):
    """It cannot be reached, or answers that it cannot tell."""


@dataclass(frozen=True)
class Server:
    """Its address, and the file of a token that may do everything."""

    address: str
    token: Path

    def rows(self, view: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """All rows of a view, and where they come from. Raises NoAnswer."""
        found: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            document = self._json("GET", f"/views/{view}/rows", params={"limit": _PAGE, **cursor})
            found += document["rows"]
            if document["next"] is None:
                return found, document["provenance"]
            cursor = {"cursor": document["next"]}

    def sql(self, statement: str) -> dict[str, Any]:
        """The document of a statement. Raises NoAnswer."""
        return self._json("POST", "/sql", json={"statement": statement})

    def send(self, source: str, lines: Sequence[bytes]) -> list[dict[str, Any]]:
        """Append records, one a line; the place of each. Raises NoAnswer."""
        headers = {"Content-Type": "application/x-ndjson"}
        content = b"".join(line + b"\n" for line in lines)
        found: list[dict[str, Any]] = self._json("POST", f"/sources/{source}/events", content=content, headers=headers)["records"]
        return found

    def status(self) -> dict[str, Any]:
        """The document of /status. Raises NoAnswer."""
        return self._json("GET", "/status")

    def ready(self) -> int | None:
        """The status of /readyz, None if there is no answer."""
        try:
            return self._ask("GET", "/readyz").status_code
        except (httpx.HTTPError, OSError):
            return None

    def _json(self, method: str, path: str, **asked: Any) -> dict[str, Any]:
        try:
            answer = self._ask(method, path, **asked)
        except (httpx.HTTPError, OSError) as error:
            raise NoAnswer(f"{path}: {error}") from None
        if answer.status_code != httpx.codes.OK:
            raise NoAnswer(f"{path}: {answer.status_code} {answer.text[:300]}")
        document: dict[str, Any] = answer.json()
        return document

    def _ask(self, method: str, path: str, *, headers: dict[str, str] | None = None, **asked: Any) -> httpx.Response:
        authorization = {"Authorization": f"Bearer {self.token.read_text().strip()}"}
        with httpx.Client(base_url=self.address, timeout=_TIMEOUT_S, trust_env=False) as http:
            return http.request(method, path, headers={**authorization, **(headers or {})}, **asked)
