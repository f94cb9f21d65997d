"""The address of a broker, and the login of a client."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem.infra.settings import Settings


@dataclass(frozen=True)
class Address:
    """The address of a broker and the client's `options`, by librdkafka's names, without the bootstrap servers.

    A request without an answer within `timeout_s` times out.
    """

    bootstrap: str
    options: Mapping[str, str] = field(repr=False)
    timeout_s: int


def login(security: str, mechanism: str, username: str, password: str) -> dict[str, str]:
    """The options of a client that logs in."""
    return {
        "security.protocol": security,
        "sasl.mechanism": mechanism,
        "sasl.username": username,
        "sasl.password": password,
    }


def outside(settings: Settings) -> Address:
    """The address of the broker that `kafka.bootstrap` names."""
    kafka = settings.kafka
    options: dict[str, str] = {}
    if kafka.security.startswith("sasl"):
        options = login(kafka.security, kafka.mechanism, kafka.username, kafka.password)
    elif kafka.security != "plaintext":
        options = {"security.protocol": kafka.security}
    if options and kafka.ca_file:
        options["ssl.ca.location"] = kafka.ca_file
    return Address(kafka.bootstrap, options, kafka.timeout_s)


def java_options(address: Address) -> dict[str, str]:
    """The same login for Kafka's Java clients, by their names, with the bootstrap servers."""
    told, options = address.options, {"bootstrap.servers": address.bootstrap}
    if security := told.get("security.protocol"):
        options["security.protocol"] = security.upper()
    if authorities := told.get("ssl.ca.location"):
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authorities}
    if mechanism := told.get("sasl.mechanism"):
        options["sasl.mechanism"] = mechanism
        options["sasl.jaas.config"] = jaas(mechanism, told["sasl.username"], told["sasl.password"])
    return options


def jaas(mechanism: str, username: str, password: str) -> str:
    """A login in the form of Java's login configuration (JAAS)."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    quoted = (f"{name}={_quoted(value)}" for name, value in (("username", username), ("password", password)))
    return f"org.apache.kafka.common.security.{module} required {' '.join(quoted)};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
