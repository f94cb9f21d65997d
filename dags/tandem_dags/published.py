"""A sensor that waits until a view is published past a time, or past a position."""

import json
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowException

from tandem_dags.command import Command, secrets_of
from tandem_dags.configuration import configuration
from tandem_dags.progress import at_or_below


class Published(BaseSensorOperator):
    """Wait until the batch view counts events up to a time, or everything below a position, of the configured project.

    * `time`: ISO 8601 in UTC, compared with the watermark at the cut.
    * `position`: offsets by topic id and partition, as in answers and asset events; or the same as JSON text.

    Both may be templates.
    """

    template_fields: Collection[str] = ("view", "time", "position")

    def __init__(
        self,
        *,
        view: str,
        time: str | None = None,
        position: Mapping[str, Mapping[str, int | str]] | str | None = None,
        **given: Any,
    ) -> None:
        if (time is None) == (position is None):
            raise ValueError("Published waits for a time or for a position; give exactly one")
        # A waiting sensor releases its slot between two polls.
        super().__init__(**{"mode": "reschedule", "poke_interval": 60, **given})
        self.view = view
        self.time = time
        self.position = position

    def poke(self, context: Context) -> bool:  # noqa: ARG002 - Airflow's own signature
        """Whether the view is published that far. Raises AirflowException if that cannot be read."""
        configured = configuration()
        words = [configured.tandem, "query", self.view, "--layer", "batch", "--limit", "0"]
        done = Command([*words, "--project", configured.project, "--json"], secrets_of(os.environ)).run(self.log.info)
        if done.code:
            raise AirflowException(done.error)
        provenance = done.document["provenance"]
        self.log.info("cut %s, watermark %s", json.dumps(provenance["cut"]), provenance["watermark"])
        if self.time is not None:
            return provenance["watermark"] is not None and _time(self.time) <= _time(provenance["watermark"])
        position = json.loads(self.position) if isinstance(self.position, str) else self.position
        return at_or_below(position or {}, provenance["cut"])

    def on_kill(self) -> None:
        """Nothing to do: no command outlives its poll."""


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
