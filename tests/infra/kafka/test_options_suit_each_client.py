"""A value that the settings accept for an option suits librdkafka as Tandem starts it, and one beyond its bounds is refused."""

import re

import pytest

from tandem.infra import kafka
from tandem.infra.kafka.address import outside
from tandem.infra.kafka.bulk_reader import BulkReader
from tandem.infra.settings import KafkaSettings, Settings
from tandem.infra.settings.kafka_clients import OPTIONS, option_fault

NOWHERE = "127.0.0.1:1"
SHORTEST_S = 0.4
"""The least time in which an append for a request has to be acknowledged."""
BOUNDS = {
    name: (int(bounds[1]), int(bounds[2]))
    for name, option in OPTIONS.items()
    if (bounds := re.fullmatch(r"a whole number from (\d+) to (\d+)", option.valid))
}


@pytest.mark.parametrize("name", BOUNDS)
def test_its_bounds_suit_all_native_clients(name: str) -> None:
    for value in BOUNDS[name]:
        of = KafkaSettings(bootstrap=NOWHERE, options={name: str(value)})
        assert option_fault(of) is None
        address = outside(Settings(kafka=of))
        kafka.Sender(address)
        kafka.Appender(address, seconds=SHORTEST_S).close()
        BulkReader(address, [], {}, columns=("value",)).close()


@pytest.mark.parametrize("name", BOUNDS)
def test_values_beyond_its_bounds_are_refused(name: str) -> None:
    least, most = BOUNDS[name]
    for value in (least - 1, most + 1, 10**20, "1_0", "\u0661", ""):
        fault = option_fault(KafkaSettings(options={name: str(value)}))
        assert fault == f"kafka.options: '{name}' = {str(value)!r} is not valid; expected a whole number from {least} to {most}"
