from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Positive


class SinkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[sinks]`: where sinks write."""

    trial: Annotated[
        str,
        Meta(
            description="Folder of a trial, relative to the project's folder: tables of sinks with a relative folder are in it, "
            "topics at the embedded broker have names that begin with `trial.`, and sinks with another target do not run. "
            "Empty: sinks write to their targets. `tandem demo` sets it."
        ),
    ] = ""
    ca_file: Annotated[str, Meta(description="PEM file of authorities that webhooks trust; empty uses the system's.")] = ""
    timeout_s: Annotated[Positive, Meta(description="Seconds after which a webhook counts as not answering.")] = 10
