"""Documents for operators: publications, audits, quarantine, runs of commands."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from tandem.serving.http.commands import Command, CommandRun, State
from tandem.serving.http.models.rows import Line, Place


class ViewDiffDocument(BaseModel):
    """How many rows of a view a promotion changed; for an unchanged view only its status."""

    status: str = Field(examples=["changed", "unchanged", "added", "removed"])
    matched: int | None = None
    changed: int | None = None
    only_old: int | None = None
    only_new: int | None = None


class PublishedDocument(BaseModel):
    """A publication: who made it live, when, why and how; its release, its cuts and batch versions, the code's revision.

    `diff` is set for a promotion. `diff`, cuts and gaps are null for tokens that are restricted to rows, because they are of all
    rows.
    """

    publication: int
    parent: int
    kind: str = Field(examples=["promote"])
    at: str
    by: str = Field(examples=["promote (token:first)"])
    why: str
    release: int
    revision: str = Field(examples=["3f9c6da1b2c4"])
    cuts: dict[str, Place] | None
    views: dict[str, list[int]] = Field(description="Its batch versions, by view.")
    gaps: list[str] | None = Field(description="The accepted gaps.")
    diff: dict[str, ViewDiffDocument] | None


class HistoryDocument(BaseModel):
    """The newest publications, the newest first; `total` is how many there are."""

    publications: list[PublishedDocument]
    total: int


class FiguresDocument(BaseModel):
    """Of `rows` answers `differ` differ by more than `tolerance`, a `share`; errors are absolute, `smape` symmetric, from 0 to
    2.
    """

    rows: int
    unequal: int
    differ: int
    share: float
    largest: float
    mean: float
    smape: float
    tolerance: float


class ExpectationDocument(BaseModel):
    """A condition that a view expects of its rows, and how many do not meet it."""

    condition: str
    severity: str = Field(examples=["stop", "warn"])
    rows: int | None = Field(description="The rows that it was checked for; null for a condition over their number.")
    unmet: int
    worst: list[dict[str, Any]] = Field(
        description="Of the worst rows the `row`'s keys and window, the `values` that the condition reads, and how `far` it is."
    )


class AuditedDocument(BaseModel):
    """The audit of a measure in one run; `figures` is null if nothing was compared, and `obstacle` says why.

    That of a condition has an `expectation` instead, and no measure.
    """

    at: str
    version: int
    served: int = Field(description="The compared publication.")
    release: int
    view: str
    measure: str | None
    start: Place
    end: Place
    obstacle: str | None = Field(examples=["bridge", "damage", "gap"])
    cause: str | None
    figures: FiguresDocument | None
    examples: list[dict[str, Any]]
    expectation: ExpectationDocument | None


class AuditsDocument(BaseModel):
    """The newest audits, the newest first: one per run, view and measure."""

    audits: list[AuditedDocument]


class QuarantinedDocument(BaseModel):
    """A record, or an event of a record's list, that is not an event of the source, and why."""

    topic: str = Field(description="The topic's name, else its id.")
    topic_id: str
    partition: int
    offset: int
    index: int | None = Field(description="Index of the event in its record's list; null for the whole record.")
    timestamp: str
    reason: str
    detail: str
    value: str = Field(description="The first 256 bytes as UTF-8; other bytes are written as `\\xNN`.")


class QuarantineDocument(BaseModel):
    """The newest quarantined records, the newest first; `counts` are of all, by reason; `next` is `before` of the next page."""

    source: str
    counts: dict[str, int]
    rows: list[QuarantinedDocument]
    next: str | None


class RecordAtDocument(BaseModel):
    """The position of a record, or of an event in its list."""

    model_config = ConfigDict(extra="forbid")

    topic_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")
    partition: StrictInt = Field(ge=0, lt=10**9)
    offset: StrictInt = Field(ge=0, lt=10**18)
    index: StrictInt | None = Field(None, ge=0, lt=10**7)

    def __str__(self) -> str:
        index = "" if self.index is None else f"#{self.index}"
        return f"{self.topic_id}/{self.partition}:{self.offset}{index}"


class RetryDocument(BaseModel):
    """Which records to decode again: the newest, those with a reason, or those at given positions."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "malformed", "limit": 20}]})

    reason: Line | None = None
    limit: StrictInt = Field(100, ge=1, le=200)
    at: list[RecordAtDocument] = Field([], max_length=200, description="These records; `reason` and `limit` are then ignored.")

    def words(self) -> list[str]:
        """The command's options, one word each."""
        places = [f"--at={place}" for place in self.at]
        return places or [f"--limit={self.limit}", *([] if self.reason is None else [f"--reason={self.reason}"])]


class WouldBeDocument(BaseModel):
    """A record that would be events: the first of them, by field, and their number."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    index: int | None = Field(description="Index of the event in its record's list; null for the whole record.")
    number: int
    events: list[dict[str, Any]]


class WouldFailDocument(BaseModel):
    """A record that would be quarantined again, and why."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    index: int | None = Field(description="Index of the event in its record's list; null for the whole record.")
    reason: str
    detail: str


class RetriedDocument(BaseModel):
    """How the project folder's decoder decodes quarantined records.

    `decoder_changed` says whether it differs from the published one: only then does `apply` decode them again.
    """

    source: str
    decoder_changed: bool
    tried: int
    events: int = Field(description="Number of records that would be events.")
    others: int = Field(description="Number of records that would belong to another source, or be skipped as tombstones.")
    would_be: list[WouldBeDocument]
    would_fail: list[WouldFailDocument]
    reasons: dict[str, int] = Field(description="Number of records that would fail, by reason.")


Number = Annotated[StrictInt, Field(ge=1, lt=2**31)]
Gate = Annotated[
    Line | None,
    Field(
        description="Promote only if these conditions hold for every changed view. Default: no conditions.",
        examples=["changed_keys < 1%, max_error < 5%"],
    ),
]
MaxLag = Annotated[
    StrictInt | None,
    Field(
        ge=0,
        lt=2**63,
        description="Number of offsets by which the release's realtime views may be behind the live ones. Default: 1000.",
    ),
]
Why = Annotated[Line, Field(description="The reason that the history shows.", examples=["visits counted twice"])]


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PlanDocument(_Options):
    """Options of `plan`: how to build views from an incomplete log."""

    accept_gap: list[Line] = Field([], max_length=100, description="Names of gaps to accept.")
    accept_shorter_history: StrictBool = Field(
        False, description="Build even if the archive has fewer records than the live views have counted."
    )

    def words(self) -> list[str]:
        """The command's options, one word each."""
        gaps = [f"--accept-gap={name}" for name in self.accept_gap]
        return [*gaps, *(["--accept-shorter-history"] if self.accept_shorter_history else [])]


class ApplyDocument(PlanDocument):
    """Options of `apply`, including those of `plan`.

    With `auto_promote` the release goes live as soon as it is ready, if it passes the gate.
    """

    max_lag: MaxLag = None
    auto_promote: StrictBool = False
    gate: Gate = None
    why: Why = ""

    def words(self) -> list[str]:
        """As Plan.words."""
        promote = ["--auto-promote"] if self.auto_promote else []
        return [*super().words(), *_given(max_lag=self.max_lag, gate=self.gate, why=self.why or None), *promote]


class PromoteDocument(_Options):
    """Options of `promote`; by default the newest ready release. `check` only reports whether the gate is open."""

    release: Number | None = None
    gate: Gate = None
    max_lag: MaxLag = None
    why: Why = ""
    check: StrictBool = False

    def words(self) -> list[str]:
        """As Plan.words."""
        check = ["--check"] if self.check else []
        options = _given(gate=self.gate, max_lag=self.max_lag, why=self.why or None)
        return [*([] if self.release is None else [str(self.release)]), *options, *check]


class RollbackDocument(_Options):
    """Options of `rollback`, to a publication or a release; by default it undoes the newest change of the release."""

    publication: Number | None = None
    release: Number | None = None
    why: Why = ""

    def words(self) -> list[str]:
        """As Plan.words."""
        options = _given(release=self.release, why=self.why or None)
        return [*([] if self.publication is None else [str(self.publication)]), *options]


class RetireDocument(_Options):
    """Options of `retire`."""

    release: Number
    why: Why = ""

    def words(self) -> list[str]:
        """As Plan.words."""
        return [str(self.release), *_given(why=self.why or None)]


class ResumeDocument(_Options):
    """Options of `resume`."""

    why: Why = ""

    def words(self) -> list[str]:
        """As Plan.words."""
        return _given(why=self.why or None)


def _given(**options: Any) -> list[str]:
    # One word each: a value that begins with a dash is not an option.
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]


class StartedDocument(BaseModel):
    """A run that has started; `Location` is its address."""

    run: str = Field(examples=["7f3c1a52-64f0-4a9e-9f0c-3d1f4c1b2a90"])


class RunStateDocument(BaseModel):
    """A run and its progress."""

    id: str
    verb: Command
    by: str = Field(description="The token that started the run.", examples=["token:first"])
    started: str
    ended: str | None
    state: State = Field(
        description="`changes`: done; the definitions differ, or with `check` the gate is closed. `stopped`: ended by DELETE."
    )
    exit: int | None = Field(description="The command's exit code, negative for a signal.")
    stopping: bool = Field(description="Whether the run is being stopped.")
    lines: list[str] = Field(description="The last lines of its progress.")
    document: Any = Field(description="The command's `--json` document; null until it is printed.")
    problem: str | None = Field(description="Why there is no document, unless the command reports it.")


class RunsDocument(BaseModel):
    """The newest runs of this server, the newest first."""

    runs: list[RunStateDocument]


def shown(run: CommandRun) -> RunStateDocument:
    """The document of a run."""
    return RunStateDocument(
        id=run.id,
        verb=run.command,
        by=run.by,
        started=_time(run.started),
        ended=None if run.ended is None else _time(run.ended),
        state=run.state,
        exit=run.exit,
        stopping=run.stopping,
        lines=list(run.lines),
        document=run.document,
        problem=run.problem,
    )


def _time(at: Any) -> str:
    text: str = at.isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
