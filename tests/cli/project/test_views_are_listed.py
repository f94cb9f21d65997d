"""`tandem views` lists what a project defines, and how exact each measure is."""

import json

import pytest

from tandem.cli.__main__ import main
from tandem.infra.folders import ROOT

DEMO = ["views", "--project", str(ROOT / "examples" / "demo")]


def test_each_source_and_view_has_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(DEMO) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        "source requests: topic requests, identity request_id",
        "source orders: topic orders, identity order_id",
        "source deliveries: topic deliveries, identity parcel_id",
        "",
        "view page_traffic of requests: tumbling(minutes=1)",
        "  by page",
    ]
    assert "  hits, bytes: exact" in lines
    assert next(line for line in lines if line.startswith("  visitors: ")).startswith("  visitors: estimate, ±")
    assert lines[-2:] == ["view parcels of deliveries: all_time()", "  parcels, grams: exact"]


def test_the_document_has_keys_windows_and_exactness(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*DEMO, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sources"]["orders"]["identity"] == ["order_id"]
    assert document["views"]["city_sales"] == {
        "source": "orders",
        "doc": "",
        "keys": ["city"],
        "window": "tumbling(hours=1)",
        "keep": None,
        "measures": {"orders": "exact", "revenue": "exact", "largest": "exact"},
    }
