"""Addresses of MQTT subscriptions: `mqtt://HOST:PORT/FILTER`, or `mqtts` over TLS."""

from dataclasses import dataclass
from typing import Final

from tandem.views.errors import TandemError

_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True)
class MqttAddress:
    """A topic filter at a broker."""

    host: str
    port: int
    filter: str
    tls: bool

    def __str__(self) -> str:
        return f"{'mqtts' if self.tls else 'mqtt'}://{self.host}:{self.port}/{self.filter}"


def mqtt_address(text: str) -> MqttAddress | None:
    """The address of a text that begins with mqtt:// or mqtts://, else None. Raises TandemError if it is not complete.

    The filter is taken as it is written: `#`, `+` and `$share/GROUP/...` mean what they mean in MQTT.
    """
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in _PORTS:
        return None
    place, _, topics = rest.partition("/")
    if "@" in place:
        raise TandemError(
            f"{scheme}://...@{place.rpartition('@')[2]}: a login does not belong in an address; set mqtt.username and "
            "the variable TANDEM_MQTT_PASSWORD",
            code="usage-invalid",
        )
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if not colon:
        host, port = place, str(_PORTS[scheme])
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65_535:
        raise TandemError(
            f"{text}: expected {scheme}://HOST:PORT/FILTER, such as {scheme}://localhost/sensors/#", code="usage-invalid"
        )
    if not _is_filter(topics):
        raise TandemError(
            f"{text}: {topics!r} is not a topic filter; expected levels between slashes, of which + is any one and a last # any "
            "further ones, such as sensors/+/temperature",
            code="usage-invalid",
        )
    return MqttAddress(host.strip("[]"), int(port), topics, tls=scheme == "mqtts")


def _is_filter(text: str) -> bool:
    levels = text.split("/")
    wild = ["#" in level or "+" in level for level in levels]
    bare = all(level in ("#", "+") for level, is_wild in zip(levels, wild, strict=True) if is_wild)
    return bool(text) and "\0" not in text and bare and "#" not in levels[:-1]
