"""The alert rules use existing metrics, each has its section in the runbook, and promtool tests them."""

import re
import shutil
import subprocess

import pytest

from tandem.cli.command_registry import COMMANDS
from tandem.cli.metrics.families import FAMILIES
from tandem.infra.folders import ROOT
from tandem.infra.settings import keys

FOLDER = ROOT / "infra" / "monitoring" / "prometheus"
RULES = (FOLDER / "alerts.yml").read_text("utf-8")
PAGE = (ROOT / "docs" / "runbook.md").read_text("utf-8")
ALERTS = re.findall(r"- alert: (\w+)", RULES)


def test_rules_and_runbook_name_existing_metrics() -> None:
    names = {family.name for family in FAMILIES}
    assert set(re.findall(r"\btandem_\w+", RULES)) <= names
    assert set(re.findall(r"\btandem_\w+", PAGE)) <= names


def test_every_alert_has_its_section_and_every_section_its_alert() -> None:
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == ALERTS
    assert re.findall(r"runbook: (\S+)", RULES) == [f"docs/runbook.md#{alert.lower()}" for alert in ALERTS]
    assert set(re.findall(r"\(#(\w+)\)", PAGE)) <= {alert.lower() for alert in ALERTS}


def test_the_runbook_names_existing_commands_and_settings() -> None:
    assert set(re.findall(r"`tandem (\w+)", PAGE)) <= set(COMMANDS)
    settings = {key.name for key in keys()}
    sections = {name.partition(".")[0] for name in settings}
    named = {name for name in re.findall(r"`([a-z]+\.[a-z_]+)`", PAGE) if name.partition(".")[0] in sections}
    assert {"speed.max_events"} <= named <= settings


def test_every_alert_is_tested_on_metrics() -> None:
    tried = (ROOT / "tests" / "infra" / "monitoring" / "prometheus" / "alerts.yml").read_text("utf-8")
    for alert in ALERTS:
        assert re.search(rf"alertname: {alert}\n\s+exp_alerts:\n", tried), f"{alert} never fires"
        assert re.search(rf"alertname: {alert}, exp_alerts: \[\]", tried), f"{alert} is never silent"


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "infra/monitoring/prometheus/prometheus.yml"),
        ("check", "rules", "infra/monitoring/prometheus/alerts.yml"),
        ("test", "rules", "tests/infra/monitoring/prometheus/alerts.yml"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_promtool_accepts_the_rules(arguments: tuple[str, ...]) -> None:
    if not (tool := shutil.which("promtool")):
        pytest.skip("needs promtool, which comes with Prometheus")
    done = subprocess.run([tool, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
