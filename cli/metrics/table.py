"""docs/metrics.md: every metric with its help, generated from the code. `python -m tandem.cli.metrics.table` prints it."""

import sys
from typing import Final

from tandem.cli.metrics.families import FAMILIES
from tandem.cli.metrics.family import Family

_HEAD: Final = """\
# Metrics

Written by `python -m tandem.cli.metrics.table > docs/metrics.md` from cli/metrics/families.py.

`tandem metrics` prints these metrics once, in the format of Prometheus: for a person, or for a cron job that writes a file for
the node exporter. `tandem metrics --port 9464` serves them at http://127.0.0.1:9464/metrics until it is stopped, on loopback
only:

    scrape_configs:
      - job_name: tandem
        static_configs:
          - targets: ["127.0.0.1:9464"]

`infra/monitoring/prometheus` has this configuration as a file, and alert rules, each with a section in [runbook.md](runbook.md);
`infra/monitoring/grafana` has dashboards ([monitor.md](monitor.md)).

* Each scrape reads the tables and polls the broker for the log's end. It keeps nothing for the next scrape, so a crash changes no
  value.
* Durations of micro-batches are in no table. The speed layer writes them to `run/speed.progress` of the state folder; they start
  at 0 with its process.
* A value that is unknown at the moment is missing, never 0. If the tables or the project cannot be read, `tandem_scrape_success`
  is 0 and the only metric.
* Counters of records and events start again where a new release decodes them differently; `rate()` treats that as a restart.

| name | kind | labels | meaning |
| --- | --- | --- | --- |
"""


def markdown() -> str:
    """The whole page."""
    return _HEAD + "".join(map(_row, FAMILIES))


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels) or "none"
    return f"| `{family.name}` | {family.kind} | {labels} | {family.help} |\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
