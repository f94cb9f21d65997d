"""The page's tables and pictures are those of the document of a run."""

from typing import Any

from tandem.bench.peers.page import page


def estimate(figure: str, contestant: str, value: float, ratio: float | None = None) -> dict[str, Any]:
    return {"figure": figure, "contestant": contestant, "value": value, "ratio": None if ratio is None else {"value": ratio}}


DOCUMENT: dict[str, Any] = {
    "machine": {"cores": 2, "complete": True},
    "contestants": [{"name": "tandem", "version": "1.2"}, {"name": "duckdb", "version": "3.4"}],
    "catch_up": {"estimates": [], "runs": []},
    "freshness": {
        "delays": [
            {
                "contestant": "tandem",
                "p50": {"value": 0.523, "low": 0.49, "high": 0.541},
                "p99": {"value": 0.802, "low": 0.758, "high": None},
            }
        ],
        "estimates": [estimate("contestant's CPU, cores", "tandem", 0.919)],
    },
    "recompute": {
        "estimates": [
            estimate("events/s", "duckdb", 2_077_453.2, 10.42),
            estimate("s, warm", "duckdb", 0.0963, 10.42),
            estimate("events/s", "tandem", 199_321),
            estimate("s, warm", "tandem", 1.003),
        ],
        "runs": [{"events": 200_000}, {"events": 200_000}],
    },
    "archive": {"estimates": [], "runs": []},
}


def test_each_figure_is_shown_with_its_ratio_and_tandem_comes_first() -> None:
    lines = page(DOCUMENT).splitlines()
    assert lines[:3] == ["Machine: cores 2, complete True.", "", "Versions: tandem 1.2, duckdb 3.4."]
    rows = [line for line in lines if line.startswith("| `")]
    assert rows == [
        "| `tandem` | 523 [490, 541] | 802 [758, unknown] | 0.92 |",
        "| `tandem` | 199,321 | 1.00 |",
        "| `duckdb` | 2,077,453 (10.42x) | 0.10 (10.42x) |",
    ]


def test_a_picture_has_a_bar_for_each_contestant() -> None:
    lines = page(DOCUMENT).splitlines()
    at = lines.index('    title "Recompute of 200,000 events: s, warm"')
    assert lines[at - 2 : at + 4] == [
        "```mermaid",
        "xychart-beta horizontal",
        '    title "Recompute of 200,000 events: s, warm"',
        '    x-axis ["tandem", "duckdb"]',
        "    bar [1, 0.0963]",
        "```",
    ]
