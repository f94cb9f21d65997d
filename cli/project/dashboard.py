"""`tandem dashboard`: a Grafana dashboard of a project's views, over the server's JSON API."""

import hashlib
import json
from collections.abc import Iterator
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

import pyarrow as pa
import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.run import part_processes, server_port
from tandem.infra.process.ports import HOST
from tandem.infra.settings import Settings
from tandem.views.project.project import Project
from tandem.views.view import answer_schema
from tandem.views.windows.in_order import SlidingCountWindow
from tandem.views.windows.in_time import AllTime

DATASOURCE: Final = {"type": "yesoreyeram-infinity-datasource", "uid": "tandem-answers"}
"""The data source that docs/monitor.md provisions."""
RANGE: Final = "from=${__from:date:iso}&to=${__to:date:iso}"
"""The dashboard's range of time; Grafana replaces both variables."""

_NUMBERS: Final = ("integer", "decimal", "float")
_MOST_ROWS: Final = 1000
_HEIGHT: Final = 9


def run(
    call: Call,
    *,
    server: Annotated[
        str | None, typer.Option(help="The server's address. Default: that of the running server, or loopback at serving.port.")
    ] = None,
) -> Output:
    """Print a Grafana dashboard with a panel for each view of the project.

    Grafana asks `tandem serve` for rows with the plugin Infinity; docs/monitor.md has the data source. Views in time are
    charts, with a line for each combination of keys; the others are tables. The dashboard changes with the definitions alone.
    """
    project = call.definitions()
    address = server or _address(call.settings())
    document = dashboard(project, call.project.resolve().name, address.rstrip("/"))
    return Output(document, json.dumps(document, indent=1))


def _address(settings: Settings) -> str:
    """Where the server answers; where none runs, the port that `up` would give it."""
    port = server_port.last_port(settings) or settings.serving.port
    return part_processes.server_address(settings.folder) or f"http://{HOST}:{port}"


def dashboard(project: Project, name: str, server: str) -> dict[str, Any]:
    """The dashboard as Grafana's JSON; its uid is of the project's name."""
    return {
        "uid": f"tandem-{hashlib.sha256(name.encode()).hexdigest()[:12]}",
        "title": f"Tandem: {name}",
        "tags": ["tandem"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "utc",
        "panels": list(_panels(project, server)),
    }


def _panels(project: Project, server: str) -> Iterator[dict[str, Any]]:
    for at, (name, view) in enumerate(project.every_view.items()):
        kinds = {field.name: _kind(field) for field in answer_schema(view)}
        timed = not isinstance(view.window, AllTime | SlidingCountWindow)
        measures = [measure for measure in view.measures if kinds[measure] in _NUMBERS]
        asked = {"measures": ",".join(measures or view.measures), "limit": str(_MOST_ROWS)}
        if timed:
            asked["order"] = "-window_start"
        elif measures:
            asked["order"] = f"-{measures[0]}"
        chart = timed and bool(measures)
        url = f"{server}/views/{quote(name, safe='')}/rows?{urlencode(asked)}" + (f"&{RANGE}" if timed else "")
        windows = ["window_start"] if timed else []
        yield {
            "id": at + 1,
            "type": "timeseries" if chart else "table",
            "title": name,
            "description": view.doc or f"{view.window} of source {view.source.name}",
            "datasource": DATASOURCE,
            "gridPos": {"x": 12 * (at % 2), "y": _HEIGHT * (at // 2), "w": 12, "h": _HEIGHT},
            "fieldConfig": {"defaults": {}, "overrides": []},
            "options": {},
            "targets": [
                {
                    "refId": "A",
                    "datasource": DATASOURCE,
                    "type": "json",
                    "source": "url",
                    "parser": "backend",
                    "format": "timeseries" if chart else "table",
                    "url": url,
                    "url_options": {"method": "GET", "data": ""},
                    "root_selector": "rows",
                    "columns": [
                        _column(column, kinds[column]) for column in (*windows, *view.keys, *(measures or view.measures))
                    ],
                }
            ],
        }


def _kind(field: pa.Field) -> str:
    kind: bytes = (field.metadata or {})[b"kind"]
    return kind.decode()


def _column(name: str, kind: str) -> dict[str, str]:
    return {"selector": name, "text": name, "type": "timestamp" if kind == "time" else "number" if kind in _NUMBERS else "string"}
