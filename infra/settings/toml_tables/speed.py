from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Count, Positive


class SpeedSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[speed]`: the speed layer."""

    trigger_ms: Annotated[Count, Meta(description="Minimum time between two micro-batches; 0 starts the next one at once.")] = 0
    hot_trigger_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="Milliseconds to wait after a commit while the hot tail of a server or of sinks on this machine follows "
            "the log (`serving.hot`), at most 10000: fewer and larger micro-batches cost less. Readers of tables see events that "
            "much later. As soon as the hot tail stands aside or its process ends, micro-batches follow `speed.trigger_ms`.",
        ),
    ] = 2_000
    max_events: Annotated[Positive, Meta(description="Maximum number of events of one source in a micro-batch.")] = 200_000
    compact_every: Annotated[
        Positive, Meta(description="Number of micro-batches between two compactions of a realtime table.")
    ] = 32
    ready_s: Annotated[Positive, Meta(description="Seconds until a started process must be ready.")] = 300
    broker_wait_s: Annotated[
        Positive, Meta(description="Seconds for which the speed layer waits for a broker that does not answer, before it ends.")
    ] = 600
    stuck_s: Annotated[
        Positive,
        Meta(
            description="Seconds without a commit or a poll at the end of a source's log after which the speed layer counts as "
            "stuck."
        ),
    ] = 60
    cores_max: Annotated[
        Positive,
        Meta(description="On a cluster: the most cores that the speed layer holds, as long as it runs; batch runs need others."),
    ] = 1
    identities_mb: Annotated[
        Positive,
        Meta(
            description="Maximum megabytes of identities per source, at 96 bytes each. Beyond that the oldest are evicted, and "
            "status and answers report since when duplicates are recognised. Each Spark worker needs 8 bytes an identity more."
        ),
    ] = 1024
    table_mb: Annotated[
        Count,
        Meta(
            description="Maximum megabytes of memory for each table in which views look up, in the speed layer, each Spark "
            "worker and a hot tail. A larger table is in files on disk, from which each micro-batch reads the versions of its "
            "keys; 0 puts all tables in files."
        ),
    ] = 64
    table_wait_ms: Annotated[
        Count,
        Meta(
            description="Milliseconds for which a micro-batch whose views look up in a table waits for commits of the table's "
            "source that do not come, while that log has records beyond them. Then it looks up in the versions that are counted, "
            "and answers are labelled until the next recompute."
        ),
    ] = 3_000
    consumer_group: Annotated[
        str,
        Meta(
            description="Prefix of the consumer groups whose offsets show Kafka's tools and exporters of lag what the live "
            "release has counted: a group `PREFIX.SOURCE` for each source. Nothing reads them back; empty commits none."
        ),
    ] = "tandem"
