"""The metrics of one name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tandem.cli.metrics.samples import ProjectState, Sample


@dataclass(frozen=True)
class Family:
    """The metrics of one name; a counter's name ends in `_total`."""

    name: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    help: str
    samples: Callable[[ProjectState], Iterable[Sample]]

    def metric(self, found: ProjectState) -> Metric:
        """The family with the values of this project state."""
        return self.of(self.samples(found))

    def of(self, read: Iterable[Sample]) -> Metric:
        """The family with these samples."""
        made = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        metric = made(self.name, self.help, labels=self.labels)
        for labels, number in read:
            metric.add_metric(labels, number)
        return metric
