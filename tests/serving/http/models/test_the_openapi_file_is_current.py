"""docs/openapi.json is the document that a server gives, so that the API changes only in a reviewed diff."""

import json
from pathlib import Path

from tandem.infra.folders import ROOT
from tandem.serving.http import openapi
from tests.serving.http.served import Served
from tests.serving.world import World

FILE = ROOT / "docs" / "openapi.json"


def test_the_file_equals_the_generated_document() -> None:
    assert FILE.read_text("utf-8") == openapi.page(), "run `python -m tandem.serving.http.openapi > docs/openapi.json`"


def test_a_server_returns_the_document_of_the_file(tmp_path: Path) -> None:
    with Served(World(tmp_path)).asker() as asker:
        assert asker.get("/openapi.json").json() == json.loads(FILE.read_text("utf-8"))
