"""Documents of runs: the options of each command, and the state of a run."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from tandem.serving.http.models.values import Line
from tandem.serving.http.operations.runs import Command, CommandRun, State

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
    """Options of `rollback`; by default to the publication before the live one."""

    publication: Number | None = None
    why: Why = ""

    def words(self) -> list[str]:
        """As Plan.words."""
        return [*([] if self.publication is None else [str(self.publication)]), *_given(why=self.why or None)]


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
