"""The note of a run, which Airflow shows in the list of runs. Tasks can write it only through Airflow's REST API.

If the configuration lacks `api` or `passwords`, the task writes the text to its log only.
"""

import json
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tandem_dags.configuration import Configuration, configuration

_MOST: Final = 1000
_SECONDS: Final = 20


def write(configured: Configuration, dag: str, run: str, text: str) -> bool:
    """Set the run's note, cut to the length of a note; False without `api` and `passwords`. Raises OSError."""
    if not configured.api or not configured.passwords:
        return False
    user, password = next(iter(json.loads(Path(configured.passwords).read_text("utf-8")).items()))
    token = _ask(configured, "POST", "/auth/token", {"username": user, "password": password})["access_token"]
    note = text if len(text) <= _MOST else f"{text[: _MOST - 4]}\n..."
    _ask(configured, "PATCH", f"/api/v2/dags/{quote(dag, safe='')}/dagRuns/{quote(run, safe='')}", {"note": note}, token)
    return True


def tell(dag: str, run: str, text: str, warn: Callable[[str], object]) -> None:
    """Set the run's note as `write` does, but go on without one: the text is in a task's log, too."""
    try:
        write(configuration(), dag, run, text)
    except OSError as error:
        warn(f"the run has no note: {error}")


def unmet(document: Mapping[str, Any]) -> str:
    """What a command says of conditions that rows do not meet, a line for each; empty if there are none."""
    if document.get("code") == "expectation-unmet":
        return str(document.get("error", ""))
    pairs = [(audit["view"], audit["expectation"]) for audit in document.get("audits", ()) if audit.get("expectation")]
    return "\n".join(
        f"view {view}: {expectation['unmet']} rows do not meet {expectation['condition']}"
        for view, expectation in pairs
        if expectation["unmet"]
    )


def _ask(configured: Configuration, method: str, path: str, document: Any, token: str = "") -> Any:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(  # noqa: S310 - the address that the configuration names
        configured.api + path, json.dumps(document).encode(), headers, method=method
    )
    # No proxy: it is this machine's own API.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_SECONDS) as answer:
        return json.loads(answer.read())
