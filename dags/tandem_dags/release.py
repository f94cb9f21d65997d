"""The tasks of `reprocess`. Each can be repeated at any time: it continues from the releases that exist."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from tandem_dags import notes
from tandem_dags.task import STATUS, Tandem

Approval = Literal["if shut", "always", "never"]
CHANGES: Final = 3
"""Exit code of `plan` if something differs, and of `promote --check` if the gate is closed."""


class Plan(Tandem):
    """Plans the change of the definitions, and notes the releases that exist before it; skips the rest if nothing differs."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Run `plan`, and write the plan to the run's note."""
        done = self.run_command(_options(self.arguments, context, "accept_gap", "accept_shorter_history"))
        self.judge(done)
        _told(self, context, "plan", planned(done.document))
        if done.code != CHANGES:
            raise AirflowSkipException("nothing differs from what is published")
        return {"publication": done.document["publication"], "standing": _standing(self)}


class Apply(Tandem):
    """Builds the release beside the live one, and reports how its answers differ."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Run `apply`, which continues what an earlier try has built, and write the differences to the run's note."""
        done = self.run_command(_options(self.arguments, context, "accept_gap", "accept_shorter_history", "max_lag"))
        if done.code and (text := notes.unmet(done.document)):
            _told(self, context, "not as expected", text)
        self.judge(done)
        diff = "\n".join(filter(None, (differences(done.document), notes.unmet(done.document))))
        _told(self, context, "diff", diff)
        return {"release": done.document["release"], "live_release": done.document["live_release"], "diff": diff[:2000]}


class GateCheck(Tandem):
    """Checks whether the release passes the gate, and whether a person has to approve it."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Fail if the gate is closed and no person can open it."""
        release, gate, approval = _release(context), context["params"]["gate"], context["params"]["approval"]
        if release is None:
            return {"open": True, "why": "these definitions are live already", "ask": False}
        done = self.run_command(["promote", str(release), "--check", *(["--gate", gate] if gate else [])])
        self.judge(done)
        shut = done.code == CHANGES
        if shut and approval == "never":
            raise AirflowFailException(f"{done.document['why']}; no person is asked (approval: never)")
        return {"open": not shut, "why": done.document["why"] or "", "ask": approval == "always" or shut}


class Approve(ApprovalOperator):
    """Asks a person, if the gate requires it; a rejection fails, so that the release is retired."""

    def execute(self, context: Context) -> Any:
        """Wait for the answer without a slot."""
        if not _of(context, "gate").get("ask"):
            return {"chosen_options": [self.APPROVE], "params_input": {}, "by": "the gate"}
        return super().execute(context)


class Promote(Tandem):
    """Makes the release live, unless it already is."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Run `promote`; a retry after a successful one finds the release live."""
        release = _release(context)
        status = self.run_command(["status"])
        self.judge(status, STATUS)
        if release is None or status.document["release"] == release:
            self.log.info("release %s is live already", status.document["release"])
            return {"publication": status.document["publication"], "release": status.document["release"]}
        options = ["--max-lag", str(context["params"]["max_lag"]), "--why", context["params"]["why"]]
        done = self.run_command(["promote", str(release), *options])
        self.judge(done)
        return {"publication": done.document["publication"], "release": done.document["release"]}


class Retire(Tandem):
    """Retires the release that this run has built; does nothing if there is none, or if it is live or retired."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Run `retire` for the release that `apply` has named, or for releases that did not exist before this run."""
        release, before = _release(context), _of(context, "plan").get("standing", [])
        standing = _standing(self)
        gone = [one for one in standing if (one == release if release is not None else one not in before)]
        for one in gone:
            self.judge(self.run_command(["retire", str(one), "--why", f"run {context['run_id']} of reprocess failed"]))
        return {"retired": gone}


def planned(document: Mapping[str, Any]) -> str:
    """A plan for a person."""
    lines = []
    for what in ("source", "view"):
        for name, one in document[f"{what}s"].items():
            if one["status"] != "unchanged":
                kind = f", {one['kind']}" if one["status"] == "changed" else ""
                lines.append(f"{what} {name}: {one['status']}{kind}")
                lines += [f"  {change['kind']}: {change['words']}" for change in one["changes"]]
                lines += [f"  to do: {one['work']}"] if one["work"] else []
    return "\n".join(lines) or "nothing differs"


def differences(document: Mapping[str, Any]) -> str:
    """How the answers of a release differ, for a person."""
    if document["release"] is None:
        return "nothing to apply"
    lines = [f"release {document['release']} is ready"]
    for name, view in document["views"].items():
        if view["status"] != "changed":
            lines.append(f"view {name}: {view['status']}")
            continue
        rows = f"{view['changed']} of {view['matched']} rows changed, {view['only_old']} gone, {view['only_new']} new"
        lines.append(f"view {name}: {rows}")
        lines += [
            f"  {measure}: {one['differ']} differ, at most by {one['largest']:g}"
            for measure, one in view["measures"].items()
            if one["differ"]
        ]
    return "\n".join(lines)


def _options(arguments: Sequence[str], context: Context, *names: str) -> list[str]:
    """The arguments, with the given params of the run."""
    params = context["params"]
    found = list(arguments)
    if "accept_gap" in names:
        found += [word for gap in params["accept_gap"] for word in ("--accept-gap", gap)]
    if "accept_shorter_history" in names and params["accept_shorter_history"]:
        found.append("--accept-shorter-history")
    if "max_lag" in names:
        found += ["--max-lag", str(params["max_lag"])]
    return found


def _told(task: Tandem, context: Context, title: str, text: str) -> None:
    """Write the text to the task's log, and append it to the run's note."""
    task.log.info("%s\n%s", title, text)
    earlier = _of(context, "plan", key="note") or ""
    note = f"{earlier}\n\n{text}" if earlier else text
    context["ti"].xcom_push(key="note", value=note[:2000])
    notes.tell(context["dag_run"].dag_id, context["run_id"], note, task.log.warning)


def _of(context: Context, task: str, key: str = "return_value") -> Any:
    found = context["ti"].xcom_pull(task_ids=task, key=key)
    return found if found is not None else ({} if key == "return_value" else None)


def _release(context: Context) -> int | None:
    release = _of(context, "apply").get("release")
    return None if release is None else int(release)


def _standing(task: Tandem) -> list[int]:
    """The other releases that never were live."""
    done = task.run_command(["status"])
    task.judge(done, STATUS)
    return [one["release"] for one in done.document["standing"] if one["stage"] in ("being built", "ready")]
