"""Sends messages of an MQTT broker. The broker gets its acknowledgement once the log has acknowledged the record.

The session stays at the broker while the command does not run, so that messages wait there. Whatever ends the command or the
connection, a message without acknowledgement is delivered again: it counts once where the source's identity knows it.
"""

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Final

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from tandem.cli.log.mqtt_address import MqttAddress
from tandem.cli.records.bundles import BundledValue
from tandem.cli.records.reject_groups import sample_sentence
from tandem.infra import kafka
from tandem.infra.settings import MqttSettings
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.errors import TandemError
from tandem.views.project.partition_key import record_keys
from tandem.views.source.source import Source

MOST_UNACKNOWLEDGED: Final = 1_000
"""Messages that the broker may deliver before the log has acknowledged the first of them."""
_QOS: Final = 1
_LOOK_S: Final = 0.2
_KEEP_ALIVE_S: Final = 300
"""More than the log may take to acknowledge: no ping is sent meanwhile."""
_SESSION_S: Final = 0xFFFFFFFF
_NEW_ONLY: Final = 1
"""Retained messages come with a new subscription, not with each start."""
_SHORT_S: Final = 2.0
_MOST_SHORT: Final = 5
"""Connections in a row that end at once: then another client has the same session, or the broker refuses what is sent."""
_MOST_PAUSE_S: Final = 10.0


@dataclass
class MqttFeed:
    """Takes messages of a subscription and sends them. `messages` counts those that the log has acknowledged."""

    source: Source
    topic: str
    place: MqttAddress
    sender: kafka.Sender
    schemas: RegistrySchemas
    say: Callable[[str], None]
    allow_rejects: bool = False
    messages: int = 0
    _waiting: list[mqtt.MQTTMessage] = field(default_factory=list, init=False, repr=False)
    _answer: list[ReasonCode] = field(default_factory=list, init=False, repr=False)
    _checked: bool = field(default=False, init=False, repr=False)

    def run(self, settings: MqttSettings, client_id: str, stop: Event) -> None:
        """Serve until `stop` is set. Raises NotSent, and TandemError if the broker refuses the client."""
        client = self._client(settings, client_id)
        self._connect(client, settings.timeout_s, first=True)
        self.say(f"subscribed to {self.place.filter} at {self.place.host}:{self.place.port} as {client_id}; stop with Ctrl-C")
        began, short = time.monotonic(), 0
        while not stop.is_set():
            failed = self._take(client)
            if not failed:
                self._send(client)
                continue
            # The broker delivers again what it has no acknowledgement of.
            self._waiting.clear()
            short = short + 1 if time.monotonic() - began < _SHORT_S else 0
            why = mqtt.error_string(failed)
            if short == _MOST_SHORT:
                raise TandemError(
                    f"{self.place} ended {short} connections in a row within {_SHORT_S:g} s ({why}): another client may use the "
                    f"id {client_id}; end that, or name another id with --client-id",
                    code="mqtt-unreachable",
                )
            self.say(f"tandem: {self.place} ended the connection ({why}); connecting again")
            self._reconnect(client, settings.timeout_s, stop)
            began = time.monotonic()
        client.disconnect()

    def _client(self, settings: MqttSettings, client_id: str) -> mqtt.Client:
        client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id, protocol=mqtt.MQTTv5, manual_ack=True)
        client.on_message = lambda _, __, message: self._waiting.append(message)
        client.on_connect = lambda _, __, ___, reason, ____: self._answer.append(reason)
        client.on_subscribe = lambda _, __, ___, reasons, ____: self._answer.extend(reasons)
        if settings.username:
            client.username_pw_set(settings.username, settings.password or None)
        if self.place.tls:
            client.tls_set_context(ssl.create_default_context(cafile=settings.ca_file or None))
        return client

    def _take(self, client: mqtt.Client) -> MQTTErrorCode:
        """Wait for messages, and take all that have come by then; the error that ended the connection, else 0."""
        failed = client.loop(_LOOK_S)
        before = 0
        while not failed and before < len(self._waiting) < MOST_UNACKNOWLEDGED:
            before = len(self._waiting)
            failed = client.loop(0)
        return failed

    def _send(self, client: mqtt.Client) -> None:
        """Send all waiting messages, and acknowledge them once the log has acknowledged them."""
        messages, self._waiting = self._waiting, []
        if not messages:
            return
        values = [bytes(message.payload) for message in messages]
        if not self._checked and not self.allow_rejects:
            sample = [BundledValue(value, number, len(value)) for number, value in enumerate(values, 1)]
            if doubt := sample_sentence(self.source, sample, str(self.place), "message", schemas=self.schemas):
                self.say(f"tandem: {doubt}")
            self._checked = True
        source = self.schemas.ready_for(self.source, values) if self.source.key is not None else self.source
        for key, value, message in zip(record_keys(source, values), values, messages, strict=True):
            self.sender.send(self.topic, value, key, headers=_headers(message))
        self.sender.finish()
        for message in messages:
            client.ack(message.mid, message.qos)
        self.messages += len(messages)

    def _connect(self, client: mqtt.Client, timeout_s: float, *, first: bool) -> None:
        """Connect and subscribe. Raises TandemError with the broker's reason."""
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = _SESSION_S
        properties.ReceiveMaximum = MOST_UNACKNOWLEDGED
        self._answer.clear()
        try:
            if first:
                client.connect(self.place.host, self.place.port, _KEEP_ALIVE_S, clean_start=False, properties=properties)
            else:
                client.reconnect()
            self._await(client, timeout_s)
            _, number = client.subscribe(self.place.filter, options=SubscribeOptions(qos=_QOS, retainHandling=_NEW_ONLY))
            if number is not None:
                self._await(client, timeout_s)
        except (OSError, ValueError) as error:
            raise TandemError(f"cannot reach {self.place}: {error}", code="mqtt-unreachable") from error

    def _await(self, client: mqtt.Client, timeout_s: float) -> None:
        """Wait for the answer to what was asked."""
        deadline = time.monotonic() + timeout_s
        while not self._answer:
            # A refusal is an answer, with which the connection ends, too.
            if (failed := client.loop(_LOOK_S)) and not self._answer:
                raise TandemError(f"{self.place} ended the connection: {mqtt.error_string(failed)}", code="mqtt-unreachable")
            if time.monotonic() > deadline:
                raise TandemError(f"{self.place} does not answer within {timeout_s:g} s", code="mqtt-unreachable")
        reason = self._answer.pop(0)
        if reason.is_failure:
            raise TandemError(f"{self.place} refuses the client: {reason}", code="mqtt-unreachable")

    def _reconnect(self, client: mqtt.Client, timeout_s: float, stop: Event) -> None:
        pause = _LOOK_S
        while not stop.is_set():
            try:
                self._connect(client, timeout_s, first=False)
            except TandemError:
                stop.wait(pause)
                pause = min(2 * pause, _MOST_PAUSE_S)
            else:
                return


def _headers(message: mqtt.MQTTMessage) -> tuple[tuple[str, bytes | None], ...]:
    """The topic as `mqtt.topic`, and the user properties by their names."""
    properties: list[tuple[str, str]] = getattr(message.properties, "UserProperty", [])
    return ("mqtt.topic", message.topic.encode()), *((name, value.encode()) for name, value in properties)
