"""Where a broker is and how a client logs in to it."""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.settings import Settings


@dataclass(frozen=True)
class Address:
    """Where a broker is and how it is spoken to: `options` by Kafka's names, without the bootstrap servers.

    A question that is not answered within `timeout_s` is given up.
    """

    bootstrap: str
    options: Mapping[str, str]
    timeout_s: int


def address(settings: Settings, bootstrap: str) -> Address:
    """How to reach a broker; a login is for the outside broker of the settings only, the embedded one asks for none."""
    kafka = settings.kafka
    options: dict[str, str] = {}
    if kafka.bootstrap and kafka.security != "plaintext":
        options["security.protocol"] = kafka.security
        if kafka.ca_file:
            options["ssl.ca.location"] = kafka.ca_file
        if kafka.security.startswith("sasl"):
            options |= {"sasl.mechanism": kafka.mechanism, "sasl.username": kafka.username, "sasl.password": kafka.password}
    return Address(bootstrap, options, kafka.timeout_s)
