"""docs/metrics.md: every metric with its help, generated from the code. `python -m cli.metrics.table` prints it."""

import sys
from typing import Final

from cli.metrics.families import FAMILIES, Family

_HEAD: Final = """\
# Metrics

Written by `python -m cli.metrics.table > docs/metrics.md` from cli/metrics/families.py.

`tandem metrics` prints these figures once, in the format that Prometheus reads: for a cron job that writes a file for the node
exporter, or for a look. `tandem metrics --port 9464` serves them at http://127.0.0.1:9464/metrics until it is ended, on
loopback only:

    scrape_configs:
      - job_name: tandem
        static_configs:
          - targets: ["127.0.0.1:9464"]

`infra/prometheus` has this as a file, and alert rules, each with a section in [runbook.md](runbook.md); `infra/grafana` has
dashboards ([monitor.md](monitor.md)).

Each scrape reads the tables again and asks the broker where the log ends; nothing is kept between two of them, so the figures
are right after any crash. Only what no table holds, how long the speed layer's micro-batches take, is its own process's to
tell: it leaves that in `run/speed.progress` of the state folder, and it starts at 0 with the process. What cannot be known at
the moment is missing, never 0. If the tables or the project cannot be read at all `tandem_scrape_success` is 0 and alone.

What counts records and events starts again where a new release reads them in another way; `rate()` takes that for a restart.

| name | kind | labels | what it says |
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
