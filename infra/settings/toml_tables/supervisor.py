from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Positive


class SupervisorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[supervisor]`: how `up` keeps the parts that it starts running."""

    silent_s: Annotated[
        Positive,
        Meta(
            description="Seconds without a sign of life after which the supervisor kills and restarts a part. A sign of life "
            "is an answer of the broker, the server or Airflow, or one iteration of the speed layer's loop."
        ),
    ] = 30
    trigger_s: Annotated[
        Positive,
        Meta(
            description="Seconds, beyond `speed.trigger_ms` and `speed.hot_trigger_ms`, within which each source must poll the "
            "end of the log or commit; otherwise the supervisor restarts the speed layer. Must exceed the longest micro-batch."
        ),
    ] = 300
    restart_s: Annotated[Positive, Meta(description="Seconds before a dead part is restarted; doubles with each failure.")] = 1
    longest_restart_s: Annotated[Positive, Meta(description="Maximum seconds between two restarts of a part.")] = 60
    failures: Annotated[
        Positive, Meta(description="Failures in a row after which the supervisor gives up on a part until the next `up`.")
    ] = 5
    settled_s: Annotated[Positive, Meta(description="Seconds that a part must run to reset its count of failures in a row.")] = (
        120
    )
