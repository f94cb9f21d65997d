"""The dashboards query existing metrics by existing labels, have units, and link to the runbook."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.metrics.families import FAMILIES
from tandem.infra.folders import ROOT

FOLDER = ROOT / "infra" / "monitoring" / "grafana"
DASHBOARDS = sorted((FOLDER / "dashboards").glob("*.json"))
LABELS = {family.name: {*family.labels, "instance", "job"} for family in FAMILIES}
OF_GRAFANA = {"$instance": ".*", "$__rate_interval": "1m"}


def panels(path: Path) -> Iterator[dict[str, Any]]:
    yield from json.loads(path.read_text("utf-8"))["panels"]


def expressions(path: Path) -> Iterator[tuple[str, str]]:
    for panel in panels(path):
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in OF_GRAFANA.items():
                expression = expression.replace(name, value)
            yield expression, target["legendFormat"]


every_dashboard = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def test_there_is_one_for_each_question() -> None:
    assert [path.stem for path in DASHBOARDS] == ["accuracy", "freshness", "pipeline", "serving"]
    assert len({json.loads(path.read_text("utf-8"))["uid"] for path in DASHBOARDS}) == len(DASHBOARDS)


@every_dashboard
def test_every_expression_names_existing_metrics_and_labels(path: Path) -> None:
    for expression, legend in expressions(path):
        names = re.findall(r"\btandem_\w+", expression)
        assert names, expression
        assert set(names) <= set(LABELS), expression
        labels = set().union(*(LABELS[name] for name in names))
        chosen = re.findall(r"(\w+)=~?\"", expression)
        grouped = [label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.findall(r"\w+", group)]
        assert {*chosen, *grouped, *re.findall(r"{{(\w+)}}", legend)} <= labels, expression
        assert len(re.findall(r'instance=~"\.\*"', expression)) == len(names), expression
        assert "$" not in expression


@every_dashboard
def test_every_panel_has_a_unit_a_sentence_and_a_place_of_its_own(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels(path):
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels(path)}) == len(list(panels(path)))


@every_dashboard
def test_panels_link_to_the_runbook(path: Path) -> None:
    sections = {
        name.lower() for name in re.findall(r"^## (\w+)$", (ROOT / "docs" / "runbook.md").read_text("utf-8"), re.MULTILINE)
    }
    document = json.loads(path.read_text("utf-8"))
    assert "${runbook}" in [link.get("url") for link in document["links"]]
    assert "runbook" in [variable["name"] for variable in document["templating"]["list"]]
    leads = [link["url"] for panel in panels(path) for link in panel.get("links", [])]
    assert leads
    assert {lead.removeprefix("${runbook}#") for lead in leads} <= sections


def test_the_data_source_is_the_one_that_the_dashboards_name() -> None:
    (uid,) = re.findall(r"uid: (\w+)", (FOLDER / "provisioning" / "datasources" / "prometheus.yml").read_text("utf-8"))
    named = re.findall(r'"uid": "([^"]+)"', "".join(path.read_text("utf-8") for path in DASHBOARDS))
    assert {name for name in named if not name.startswith("tandem-")} == {uid}


@every_dashboard
def test_promtool_accepts_every_expression(path: Path, tmp_path: Path) -> None:
    if not (tool := shutil.which("promtool")):
        pytest.skip("needs promtool, which comes with Prometheus")
    rules = [{"record": f"panel:{number}", "expr": expression} for number, (expression, _) in enumerate(expressions(path))]
    # JSON is YAML.
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": path.stem, "rules": rules}]}))
    done = subprocess.run([tool, "check", "rules", str(tmp_path / "rules.yml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
