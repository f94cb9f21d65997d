"""The output of `tandem metrics`, as Prometheus parses it."""

from prometheus_client.parser import text_string_to_metric_families

from tandem.cli.metrics.families import FAMILIES

Samples = dict[tuple[str, ...], float]


def parsed(text: str) -> dict[str, Samples]:
    """By name the numbers, by the values of their labels in the order of the page."""
    names = {family.name: family.labels for family in FAMILIES}
    found: dict[str, Samples] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels[label] for label in names[sample.name])] = sample.value
    return found
