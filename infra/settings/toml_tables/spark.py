from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Count, Memory, Positive


class SparkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[spark]`: Spark's master, workers, memory and properties."""

    master: Annotated[
        str,
        Meta(
            description="Spark's master: local[N] on this machine, or a cluster: spark://host:port, yarn, or k8s://https://host:port."
        ),
    ] = "local[*]"
    driver_memory: Annotated[Memory, Meta(description="Maximum Java heap of a Spark driver, such as 512m or 2g.")] = "1g"
    driver_host: Annotated[
        str,
        Meta(description="On a cluster: the address of this machine at which executors reach a driver; empty is Spark's choice."),
    ] = ""
    python: Annotated[
        str,
        Meta(description="On a cluster: the Python of the executors, a path on their hosts; empty is this Python's path."),
    ] = ""
    jars: Annotated[
        Literal["send", "installed"],
        Meta(
            description="On a cluster: `send` Tandem's jars to the executors, or expect them `installed` in the `jars` folder of "
            "their Spark, for example in an image."
        ),
    ] = "send"
    cores_max: Annotated[
        Count,
        Meta(
            description="On a cluster: the most cores that one batch run takes. 0: all free cores of a standalone cluster, two "
            "executors on YARN and Kubernetes."
        ),
    ] = 0
    executor_memory: Annotated[
        Memory, Meta(description="On a cluster: maximum Java heap of an executor; its Python workers need memory of their own.")
    ] = "1g"
    executor_wait_s: Annotated[
        Positive, Meta(description="On a cluster: seconds to wait for the first executor of a session, before it is refused.")
    ] = 60
    executor_idle_s: Annotated[
        Count,
        Meta(
            description="On a cluster: seconds without a task after which Spark releases an executor. Under load it requests "
            "executors again, up to `spark.cores_max` or `speed.cores_max`; the last one stays. 0: executors stay as long as "
            "their driver."
        ),
    ] = 0
    conf: Annotated[dict[str, str], Meta(description="Additional Spark properties; they override Tandem's own.")] = {}
