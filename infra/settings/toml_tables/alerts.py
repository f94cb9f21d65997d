from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Positive


class AlertSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[alerts]`: who receives the edges of alerts; without an address they are stored and listed only."""

    alertmanager: Annotated[
        str, Meta(description="Address of a Prometheus Alertmanager, such as http://127.0.0.1:9093; empty sends nothing there.")
    ] = ""
    webhook: Annotated[
        str, Meta(description="Address to which each edge is posted, signed with `alerts.secret`; empty sends nothing there.")
    ] = ""
    secret: Annotated[
        str, Meta(description="Secret that signs what the webhook receives; prefer the variable TANDEM_ALERTS_SECRET.")
    ] = ""
    ca_file: Annotated[str, Meta(description="PEM file of trusted certificate authorities; empty uses the system's.")] = ""
    timeout_s: Annotated[Positive, Meta(description="Seconds after which a receiver counts as not answering.")] = 10
