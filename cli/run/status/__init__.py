"""`tandem status`: running parts, the position of each source and view, and the outcome of records."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from tandem.cli.command.call import UNHEALTHY, Call, Output
from tandem.cli.command.drift import working_tree_drift
from tandem.cli.run.report_loop import repeat_report
from tandem.cli.run.status.document import status_document
from tandem.cli.run.status.sentences import sentences
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publications
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.snapshot_follower import UNPUBLISHED


def run(
    call: Call,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every two seconds until Ctrl-C; with --json a document a line.")
    ] = False,
) -> Output:
    """Show the running parts, and the progress of each source and view. Exits with 3 if a part is red or a source silent.

    A part is red if it is dead, stuck or given up; a source is silent if more than half of its newest records are rejected.

    The document of `--json` has, for the parts:

    * `parts`: each part's state (`running`, `behind`, `starting`, `stuck`, `dead`, `given_up` or `not_started`); whether it is
      `red`, since when, why, how to fix it, and how many seconds ago it last worked.

    For each source:

    * `decoded`, `quarantined`, `others` (records of other sources in the same topics), `skipped` (before the source's
      start, or tombstones that it skips): number of records, from whichever layer has read further. A record with several
      events counts once; each of its events that is rejected alone is quarantined, too.
    * `duplicates`, `conflicts`: number of events among those that merged answers count.
    * `late`: the same; only the speed layer labels events late, because only it reads them in order.
    * `ahead`: number of events, duplicates included, whose time is more than the source's `clock_skew` after their record's
      timestamp. They count, but do not move the watermark.
    * `off_calendar`: number of events, duplicates included, whose record's timestamp lies before 1582-10-15 or after the year
      9999, as nanoseconds for milliseconds do. They count, with the nearest time as `_append_time`.
    * `rounded`: number of values of events, duplicates included, that were rounded to the `Scale` of their field.
    * `repaired`: duplicates, older than the dedup window, that the last recompute removed from the answers; null if unknown.
    * `watermark`: the watermark of merged answers.
    * `start`: where the source starts, if its definition says: as declared, and the first offsets that count; else null.
    * `history`: the `tables` whose rows come before the topics; from when on (`log_from`) events of the topics count instead; and
      the `expiry` of records by the source's `keep_s`: number of `offsets`, and `until` which event time. Null without any.
    * `positions`: where merged answers stand.
    * `identities_since`: since when duplicates are recognised, if `speed.identities_mb` is too small for `dedup_window`;
      else null.
    * `behind_bridge`: the speed layer skipped a stretch of the log; answers follow when a recompute has published that
      stretch.
    * `topics`: in the order of the log, each with `name`, `id` and `state`: `read`, `new`, `gone`, or `unknown` while the broker
      does not answer. A topic that was created again has another id. `topic_pattern` is the pattern of their names, or null.
    * `log_end`, `lag`: null while the broker does not answer; `log_end_problem` is the reason.
    * `open_transactions`: where committed records end at a transaction that is open: `topic`, `topic_id`, `partition`, the
      `offset` where it begins, the number of `offsets` that wait from there on, `since` when, its `transactional_id`, and a
      `warning` after a minute. Neither `log_end` nor `lag` counts these offsets; null while the broker does not answer.
    * `rejected`: set if more than half of the source's newest records are rejects, and the exit code is 3: how many `records`
      decided, `rejects` by reason, `since` which position, the likely `cause` in words, a `sample` that the quarantine has, and
      the `warning` that sums this up. It is null again as soon as the newest records decode.
    * `hot`: the hot tail (`serving.hot`) of a server on this machine, null without one: how many offsets it counts `ahead` of
      the commits, why it stands `aside` if so, the `views_aside` with what each needs, the number of `compared` views and of
      `mismatched` rows, which must be 0, and its `bytes` of memory.
    * `waiting`: since when and why the speed layer waits: a broker or schema registry does not answer, or the registry lacks a
      schema to which another one refers.
    * `until_loss`: `seconds` and `offsets` until the topic's retention may delete records that are not archived, null without
      a limit or a backlog; the number of `lost` offsets; and a `warning`, if any.
    * `gaps`: the losses that `archive` has recorded, each with its name, and a `warning` that explains how to continue until a
      recompute has accepted the gap.

    For each view:

    * `after_final`: number of events that arrived in windows that answers had already labelled final.
    * `kept_from`: the start of the first window that stays; null if all windows stay.
    * `exactness`: how exact merged rows are, and why.

    For sinks that have run in this state folder, and for alerts that have ever run:

    * `sinks`: the `state` of each (`running`, `failing` or `stopped`); its target's `token`, and the `position` of its commits;
      by how many offsets (`lag`) and seconds (`lag_s`) the target is behind answers; when its newest step was (`at`); `steps`,
      written `rows`, `gone` rows, `comparisons` of all rows and `errors` since its process began; and the newest `error`.
    * `alerts`: the number of rows, each of a key and window, for which each is `raised`, and of those that are `waiting` for
      their `hold`; how many edges each receiver has not acknowledged (`unsent`), why its newest attempt failed (`faults`); and
      when the newest edge was (`at`). `tandem alerts` lists the rows.

    For releases:

    * `standing`: the releases that are kept up to date beside the live one, and by how many offsets their realtime views are
      behind it; if one failed recently, the reason.
    """
    if watch:
        return repeat_report(call, lambda say: _report(call, say))
    return _report(call, call.say)


def _report(call: Call, say: Callable[[str], object]) -> Output:
    settings = call.settings()
    tables, now = Tables.of(settings), clock.now()
    if Publications(tables).latest() is None:
        say(UNPUBLISHED)
        found = status_document(call, settings, tables, None, now=now)
        return Output({**found, "definitions": None}, sentences(found), _code(found))
    reader = Reader(tables)
    found = status_document(call, settings, tables, reader, now=now)
    return Output({**found, "definitions": working_tree_drift(call, reader).to_json()}, sentences(found), _code(found))


def _code(found: Mapping[str, Any]) -> int:
    silent = any(source["rejected"] for source in found["sources"].values())
    return UNHEALTHY if silent or any(part["red"] for part in found["parts"]) else 0
