from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Count, Port, Positive

Cron = Annotated[str, Meta(pattern=r"^(\S+ \S+ \S+ \S+ \S+)?$")]


class AirflowSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[airflow]`: when the DAGs of `up --airflow` run; cron expressions in UTC, empty for never."""

    port: Annotated[Port, Meta(description="Port of Airflow's pages and API on 127.0.0.1; 0 picks a free port and keeps it.")] = 0
    recompute: Annotated[Cron, Meta(description="Schedule for archive, recompute and maintain.")] = "0 * * * *"
    full: Annotated[
        Cron,
        Meta(description="Schedule for recomputing all views at the published cut, which must reproduce the served answers."),
    ] = "30 3 * * 0"
    verify: Annotated[Cron, Meta(description="Schedule for verifying every view.")] = "30 2 * * *"
    maintain: Annotated[Cron, Meta(description="Maintain.")] = "0 2 * * *"
    watch_log: Annotated[
        Cron, Meta(description="Schedule for checking whether the log may lose records that are not archived.")
    ] = "*/10 * * * *"
    retries: Annotated[Count, Meta(description="Number of retries of a failed task.")] = 3
    retry_s: Annotated[Positive, Meta(description="Seconds before the first retry; later retries wait longer.")] = 30
