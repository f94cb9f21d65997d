"""A run's events in OpenLineage's format (https://openlineage.io/spec)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import attr
from openlineage.client import facet_v2
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import column_lineage_dataset as columns
from openlineage.client.facet_v2 import dataset_version_dataset, error_message_run, job_type_job, schema_dataset

from tandem.infra.lineage.data_set import DataSet, DataSets, DerivedColumns
from tandem.views.project.column_lineage import How

State = Literal["START", "RUNNING", "COMPLETE", "FAIL"]
Kind = Literal["BATCH", "STREAMING"]

PRODUCER: Final = "urn:tandem:0.1.0"
_WAYS: Final[Mapping[How, tuple[str, str]]] = {
    "identity": ("DIRECT", "IDENTITY"),
    "transformation": ("DIRECT", "TRANSFORMATION"),
    "aggregation": ("DIRECT", "AGGREGATION"),
    "condition": ("INDIRECT", "CONDITIONAL"),
}


@attr.define
class PositionsFacet(facet_v2.DatasetFacet):
    """Which offsets of a log a run read or wrote: `{topic id: {partition: [[from, to], ...]}}`, half-open."""

    ranges: dict[str, dict[str, list[list[int]]]]

    @staticmethod
    def _get_schema() -> str:
        return "urn:tandem:facets:positions:1"


@attr.define
class RunFacet(facet_v2.RunFacet):
    """Tandem's facts about a run: the release whose definitions it uses, and its process."""

    release: int
    pid: int

    @staticmethod
    def _get_schema() -> str:
        return "urn:tandem:facets:run:1"


@dataclass(frozen=True)
class NamedRun:
    """A run of a job: `id` is a UUID."""

    id: str
    namespace: str
    job: str
    kind: Kind
    release: int
    pid: int


def event(named: NamedRun, state: State, sets: DataSets, *, at: datetime, error: str | None = None) -> RunEvent:
    """One event of the run."""
    run: dict[str, facet_v2.RunFacet] = {"tandem_run": RunFacet(named.release, named.pid, producer=PRODUCER)}
    if error is not None:
        run["errorMessage"] = error_message_run.ErrorMessageRunFacet(error, "PYTHON", producer=PRODUCER)
    job: dict[str, facet_v2.JobFacet] = {"jobType": job_type_job.JobTypeJobFacet(named.kind, "TANDEM", "JOB", producer=PRODUCER)}
    return RunEvent(
        eventTime=at.astimezone(UTC).isoformat(timespec="milliseconds"),
        eventType=RunState(state),
        producer=PRODUCER,
        run=Run(named.id, facets=run),
        job=Job(named.namespace, named.job, facets=job),
        inputs=[InputDataset(one.namespace, one.name, facets=_facets(one)) for one in sets.inputs],
        outputs=[OutputDataset(one.namespace, one.name, facets=_facets(one)) for one in sets.outputs],
    )


def _facets(one: DataSet) -> dict[str, facet_v2.DatasetFacet]:
    named: dict[str, Any] = {}
    if one.fields:
        fields = [schema_dataset.SchemaDatasetFacetFields(field.name, field.type, fields=None) for field in one.fields]
        named["schema"] = schema_dataset.SchemaDatasetFacet(fields, producer=PRODUCER)
    if one.version is not None:
        named["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(one.version, producer=PRODUCER)
    if one.positions is not None:
        named["tandem_positions"] = PositionsFacet(one.positions.to_json(), producer=PRODUCER)
    if one.made is not None:
        named["columnLineage"] = _columns(one.made)
    return named


def _columns(made: DerivedColumns) -> columns.ColumnLineageDatasetFacet:
    def read(field: str, kind: str, subtype: str, written: str = "") -> columns.InputField:
        way = columns.Transformation(kind, subtype, written or None, masking=False)
        return columns.InputField(made.of.namespace, made.of.name, field, [way])

    found = made.lineage
    fields = {
        column.name: columns.Fields([read(origin.field, *_WAYS[origin.how], column.written) for origin in column.origins])
        for column in found.columns
    }
    whole = [read(field, "INDIRECT", "FILTER") for field in found.filtered_by]
    whole += [read(field, "INDIRECT", "GROUP_BY") for field in found.grouped_by]
    return columns.ColumnLineageDatasetFacet(fields, whole, producer=PRODUCER)
