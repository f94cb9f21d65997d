"""The OpenAPI document says what there is: whatever is sent by it, or in spite of it, no answer is one that it does not have."""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import settings

from tandem.serving.http.requests.gate import gated
from tests.serving.http.served import WAITING, Served, serving
from tests.serving.world import forty_hits

NO_RUN = "00000000-0000-4000-8000-000000000000"
EXAMPLES = max(2, settings().max_examples // 12)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    made = Served(forty_hits(tmp_path_factory.mktemp("world")), {"rate": 10**6, "burst": 10**6, "failed_logins": 10**6})
    # Less than any setting can say, so that positions of the future cost no time.
    object.__setattr__(made.server, "settings", msgspec.structs.replace(made.server.settings, wait_s=0.01))
    return made


@pytest.fixture(scope="module")
def address(served: Served) -> Iterator[str]:
    with serving(served) as found:
        yield found


@pytest.fixture(scope="module")
def secret(served: Served) -> str:
    return served.token("schemathesis", may=("read", "sql", "ingest", "admin"))


@pytest.fixture(scope="module")
def document(address: str, secret: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{address}/openapi.json", headers={"Authorization": f"Bearer {secret}"}, timeout=60).json()
    return found


@pytest.fixture(scope="module")
def under_way(served: Served, address: str, secret: str) -> str:
    """A run that goes on for ever, beside another one with effect: whatever else is to be run has to wait for these."""
    (served.world.folder / "definitions.py").write_text(WAITING)
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:
        begun = [client.post(f"/runs/{command}", json={}) for command in ("apply", "plan")]
    assert [answer.status_code for answer in begun] == [202, 202]
    return str(begun[1].json()["run"])


CONFIGURATION = """
headers = {{ Authorization = "Bearer {secret}" }}

[generation]
max-examples = {examples}
deterministic = true

[checks]
enabled = false
status_code_conformance.enabled = true
content_type_conformance.enabled = true
response_schema_conformance.enabled = true
response_headers_conformance.enabled = true
ignored_auth.enabled = true
unsupported_method.enabled = true
not_a_server_error.enabled = true
# Answers that say why there is none: no defects.
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503, 504]
"""


def test_every_answer_is_described_by_the_document(
    tmp_path: Path, address: str, secret: str, document: dict[str, Any], under_way: str
) -> None:
    """All phases of schemathesis: examples, each bound of each parameter, random requests, and sequences of them."""
    sent = copy.deepcopy(document)
    del sent["paths"]["/views/{view}/changes"]  # which goes on for ever
    for operations in sent["paths"].values():
        for method, operation in operations.items():
            operation.get("requestBody", {}).get("content", {}).pop("application/x-ndjson", None)  # which it cannot write
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "view":  # else nearly all that is asked would be absent
                    parameter["schema"] = {"type": "string", "enum": ["per_page", "ever", "inverse", "nothing"]}
                if parameter["name"] == "source":  # a retry is a process, and each would take seconds
                    parameter["schema"] = {"type": "string", "enum": ["nothing"] if method == "post" else ["hits", "nothing"]}
                if parameter["name"] == "id":  # what is under way stays so
                    parameter["schema"] = {"type": "string", "enum": [NO_RUN] if method == "delete" else [NO_RUN, under_way]}
                if parameter["name"] == "key.":
                    parameter["schema"]["propertyNames"] = {"enum": ["key.page", "key.odd", "key.x"]}
    (tmp_path / "openapi.json").write_text(json.dumps(sent))
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION.format(secret=secret, examples=EXAMPLES))
    told = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            "--config-file",
            "schemathesis.toml",
            "run",
            "openapi.json",
            "--url",
            address,
        ],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"


def test_the_document_has_every_route_with_its_right_and_every_status(served: Served, document: dict[str, Any]) -> None:
    found = {
        (method.upper(), path): operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    routes = {
        (method, route.path_format): route
        for route in gated(served.app)
        for method in route.methods or ()
        if route.include_in_schema
    }
    assert set(found) == set(routes)
    for place, operation in found.items():
        needs = routes[place].needs
        assert operation["x-verb"] == needs
        assert bool(operation.get("security")) == (needs != "open")
        assert operation["description"]
        assert {"400", "500"} <= set(operation["responses"])
        assert {"200", "202"} & set(operation["responses"])
        assert ("422" in operation["responses"]) == (place == ("POST", "/sources/{source}/events"))
        for status, response in operation["responses"].items():
            if status >= "400":
                assert response["content"]["application/problem+json"]["example"]["status"] == int(status)
        if needs != "open":
            assert {"401", "403", "429", "503", "504"} <= set(operation["responses"])
