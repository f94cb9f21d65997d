from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Positive


class MqttSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[mqtt]`: how `tandem feed mqtt://...` logs in to a broker."""

    username: Annotated[str, Meta(description="User name; empty logs in without one.")] = ""
    password: Annotated[str, Meta(description="Password; prefer the variable TANDEM_MQTT_PASSWORD.")] = ""
    ca_file: Annotated[
        str, Meta(description="PEM file of trusted certificate authorities for mqtts; empty uses the system's.")
    ] = ""
    timeout_s: Annotated[Positive, Meta(description="Seconds until a broker counts as not answering.")] = 10
