"""Planted bugs, each a change of a few words of the product's code, and the test that catches it.

A bug has no file: its code is found wherever it lies in the product, and its test in all files of tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tandem.infra.folders import ROOT

PRODUCT = ("views", "infra", "ledger", "batch", "speed", "serving", "bench", "cli", "dags", "src/tandem")

SIMULATION = "test_any_seed_gives_the_answers_of_the_log"
LOSSES = "test_every_offset_of_the_log_is_in_the_archive_or_in_a_gap"
HOT = "test_a_hot_answer_equals_the_cold_answer_at_its_position"
NAMED = "test_files_that_may_still_be_read_exist"


@dataclass(frozen=True)
class Mutant:
    """A bug: `new` in place of `old`, which occurs once in the product. `bug` is its effect; the test named `test` catches it."""

    name: str
    bug: str
    old: str
    new: str
    test: str

    @property
    def file(self) -> str:
        """The file that holds `old`. Raises ValueError if none does, or more than one place."""
        places = [file for file, text in product().items() for _ in range(text.count(self.old))]
        if len(places) != 1:
            raise ValueError(f"{self.name}: {self.old!r} is in {places or 'no file'}; expected one place")
        return places[0]


@cache
def product() -> Mapping[str, str]:
    """The text of each file of the product."""
    files = (file for package in PRODUCT for file in sorted(Path(ROOT, package).rglob("*.py")))
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


MUTANTS = (
    Mutant(
        "executors-come-without-a-bound",
        "executors that come and go are allowed without the cores for which a batch run plans its tasks: it plans none",
        "    if spark.executor_idle_s and not spark.cores_max:\n",
        "    if spark.executor_idle_s and spark.cores_max < 0:\n",
        "test_executors_that_cannot_come_and_go_are_one_sentence",
    ),
    Mutant(
        "overtaken-speed-layer-claims-again",
        "a speed layer whose lease another machine has taken claims a realtime table with an outdated token",
        "to_rows(mark, handle), lease=lease)",
        "to_rows(mark, handle), lease=None)",
        "test_an_overtaken_speed_layer_neither_commits_nor_claims_again",
    ),
    Mutant(
        "cursor-of-another-publication",
        "a server continues the pages of a cursor from whatever publication and position it names",
        "if past is None or _stand(past, question.view) != stand:",
        "if past is None:",
        "test_a_cursor_of_another_publication_or_position_is_refused",
    ),
    Mutant(
        "older-answer-for-a-monotonic-client",
        "a server that is behind answers a client that asks for monotonic reads at once",
        "return not any(must_await(self._end(source), end) for source, end in ends.items())",
        "return True",
        "test_answers_do_not_step_back_for_a_client_that_asks_for_that",
    ),
    Mutant(
        "fatal-error-unheard",
        "the thread that hears the outcomes of a server's appends takes a fatal error for nothing, and the appender for whole",
        "            except KafkaException as error:  # a fatal one, once; the outcomes of the records follow\n"
        "                self._told_of(error.args[0])",
        "            except KafkaException:\n                continue",
        "test_a_user_who_may_write_nowhere_is_one_sentence",
    ),
    Mutant(
        "any-client-option",
        "an option of Kafka's clients on which exactness rests is taken from the settings",
        "        if name not in OPTIONS:\n",
        "        if name not in OPTIONS and name != 'acks':\n",
        "test_an_invalid_setting_is_one_sentence",
    ),
    Mutant(
        "tool-past-the-gate",
        "a tool's request to its route is let through without a check of token, right and limits",
        'if self.needs == "open":\n                _refuse',
        'if self.needs == "open" or "principal" in given.scope["state"]:\n                _refuse',
        "test_a_tool_answers_what_its_route_answers",
    ),
    Mutant(
        "moment-in-a-file",
        "a caller of the server names a file of its machine as a moment",
        "Moments(server.tables, name, chosen, files=False)",
        "Moments(server.tables, name, chosen)",
        "test_a_server_splits_differences_within_the_rights_of_the_token",
    ),
    Mutant(
        "rebound-page",
        "a page whose name points to this machine may use its tools",
        'if origin.partition("://")[2] != host or not _LOOPBACK.fullmatch(host):',
        'if origin.partition("://")[2] != host:',
        "test_web_pages_of_other_machines_are_refused",
    ),
    Mutant(
        "late-row-in-a-training-set",
        "a row of a training set knows events that came after its time",
        "counted: npt.NDArray[np.bool_] = (rows[_ARRIVAL].to_numpy() <= at) &",
        "counted: npt.NDArray[np.bool_] = (rows[_EVENT].to_numpy() <= at) &",
        "test_each_feature_is_what_nested_loops_give",
    ),
    Mutant(
        "appended-at-the-instant",
        "a row of a training set does not know an event that was appended at its time",
        "counted: npt.NDArray[np.bool_] = (rows[_ARRIVAL].to_numpy() <= at) &",
        "counted: npt.NDArray[np.bool_] = (rows[_ARRIVAL].to_numpy() < at) &",
        "test_each_feature_is_what_nested_loops_give",
    ),
    Mutant(
        "text-as-a-number",
        "a text in a training set's CSV file that looks like a number is the key of that number",
        "if self.texts is None or not (",
        "if True or not (",
        "test_a_text_of_a_csv_file_stays_as_it_is_written",
    ),
    Mutant(
        "end-of-a-window-in-it",
        "a row of a training set at the end of a window gets that window",
        "AND {AT} < {end}))",
        "AND {AT} <= {end}))",
        "test_each_feature_is_what_nested_loops_give",
    ),
    Mutant(
        "logged-answer-with-the-next-event",
        "a logged answer is computed again with the event after its position",
        'arrivals[some] = np.searchsorted(ends, offsets[some], side="right")',
        'arrivals[some] = np.searchsorted(ends, offsets[some], side="left")',
        "test_each_logged_answer_is_computed_again_and_what_differs_is_listed",
    ),
    Mutant(
        "logged-window-that-had-left",
        "a logged answer of a window that had left its view is computed again as if the window had stayed",
        "row = None if _is_gone(answer) else computed.get(place)",
        "row = computed.get(place)",
        "test_each_logged_answer_is_computed_again_and_what_differs_is_listed",
    ),
    Mutant(
        "left-window-as-a-difference",
        "`why` counts the events of a window that has left its view, so that the row seems to be wrong",
        "groups = {} if left else _groups(",
        "groups = _groups(",
        "test_rows_of_windows_that_have_left_are_no_differences",
    ),
    Mutant(
        "left-window-as-a-duplicate",
        "`why-changed` takes the rows of a window that has left for duplicates",
        "or _is_gone(second, group):",
        "or False:",
        "test_rows_of_windows_that_have_left_are_no_differences",
    ),
    Mutant(
        "erasure-of-another-row",
        "a receipt is refused because records were erased that its answer did not count",
        "(*erased, *problems) if problems else ()",
        "(*erased, *problems)",
        "test_what_is_gone_is_named",
    ),
    Mutant(
        "logged-answer-of-nothing",
        "a look-up that found nothing is not logged",
        "server.answers.row(view, (one.key, one.start), found, measures, memory.provenance)",
        "found is None or server.answers.row(view, (one.key, one.start), found, measures, memory.provenance)",
        "test_each_logged_answer_is_computed_again_and_what_differs_is_listed",
    ),
    Mutant(
        "rehearsal-by-event-time",
        "a late event counts at checkpoints before it was appended",
        'first = np.searchsorted(times, events[APPEND_TIME].cast(pa.int64()).to_numpy(), side="left")',
        'first = np.searchsorted(times, events[part.source.time_column].cast(pa.int64()).to_numpy(), side="left")',
        "test_rows_at_each_checkpoint_are_those_of_the_events_until_then",
    ),
    Mutant(
        "rehearsal-of-both-copies",
        "a copy still counts at checkpoints that have an earlier one",
        "replaced = events[UNTIL.name].fill_null(np.iinfo(np.int64).max).to_numpy()",
        "replaced = np.full(events.num_rows, np.iinfo(np.int64).max)",
        "test_rows_at_each_checkpoint_are_those_of_the_events_until_then",
    ),
    Mutant(
        "rehearsal-with-the-first-prices",
        "look-ups of a rehearsal find the versions of the first checkpoint at all of them",
        "if number and count == counts[number - 1]:",
        "if number:",
        "test_look_ups_at_each_checkpoint_find_the_versions_until_then",
    ),
    Mutant(
        "rehearsed-label-as-a-change",
        "a rehearsed alert gets rows of which only the window's label has changed",
        "if name not in (*self.bound.columns, WINDOW_STATE.name):",
        "if name not in self.bound.columns:",
        "test_alerts_of_both_sides_are_those_of_a_process_at_the_checkpoints",
    ),
    Mutant(
        "copy-listed-as-counted",
        "`why` lists a duplicate among the events that count",
        "return oracle.counted(self.log.source, candidates, first, self.generations), first",
        "return oracle.from_start(self.log.source, candidates), first",
        "test_a_row_is_shown_with_all_that_nearly_counted",
    ),
    Mutant(
        "receipt-of-the-label",
        "a receipt's digest has the window's label, which changes as the log goes on",
        "left_out = {WINDOW_STATE.name, *(name for name",
        "left_out = {*(name for name",
        "test_a_receipt_gives_the_same_bytes_whatever_came_since",
    ),
    Mutant(
        "parts-by-rounding",
        "the parts of a difference are doubles, which add up to it only when they are rounded",
        "shares[cause] += after - before",
        "shares[cause] = float(shares[cause]) + float(after - before)",
        "test_parts_add_up_to_the_difference_exactly",
    ),
    Mutant(
        "late-is-new",
        "an event that came when the window was final is a new one",
        "number < len(self.until) and at[2] >= self.cuts[number]",
        "number < 0 and at[2] >= self.cuts[number]",
        "test_new_and_late_events_are_told_apart",
    ),
    Mutant(
        "null-key-of-any-row",
        "`why` takes an event whose key is NULL for one that may have been meant for any row",
        "TRY(({value}) IS NULL) IS NOT TRUE)",
        "TRUE)",
        "test_events_whose_key_is_null_concern_no_other_row",
    ),
    Mutant(
        "copies-of-the-session-before",
        "`why` lists duplicates of events next to a session as its own",
        "rows_among(copies, of_row, oracle.identity_columns(source))",
        "rows_among(copies, copies, oracle.identity_columns(source))",
        "test_a_session_has_no_copies_of_the_session_before",
    ),
    Mutant(
        "why-without-the-topic",
        "`why` leaves out the events that the archive does not have yet",
        "if inside.num_rows:\n            yield inside.filter",
        "if not inside.num_rows:\n            yield inside.filter",
        "test_a_row_is_shown_with_all_that_nearly_counted",
    ),
    Mutant(
        "row-group-of-the-last-instant",
        "`why` does not read a row group whose newest event is the first of the window",
        "low is not None and bounds.max < low",
        "low is not None and bounds.max <= low",
        "test_a_row_group_is_read_if_it_can_have_an_event",
    ),
    Mutant(
        "table-of-any-meaning",
        "a view that looks up in a table has the same fingerprint when the table has changed",
        'return ["table", fingerprint(table.parent), lookup.how, finds, *missing]',
        'return ["table", lookup.how, finds, *missing]',
        "test_a_fold_without_the_versions_fails_and_the_fingerprint_has_the_table",
    ),
    Mutant(
        "version-of-the-same-time",
        "an event does not find the version that is valid from its own time on",
        "before = valid_from[middle] <= at[searching]",
        "before = valid_from[middle] < at[searching]",
        "test_look_ups_in_tables_at_any_cuts_are_nested_loops",
    ),
    Mutant(
        "publish-before-it-is-checked",
        "rows that do not meet a condition are published, and the run fails after that",
        "        compared += tuple(expected := _check_expectations(batch, version, built, live))\n"
        "        if not request.publish_anyway:\n"
        '            stays = f"publication {live.number} stays live; --publish-anyway publishes the rows as they are"\n'
        "            refuse_unmet(expected, stays)\n"
        "\n"
        "        def following(parent: Publication | None) -> Publication:\n"
        "            publications.refuse_stale(parent, live, extends=version.definitions.views)\n"
        "            assert parent is not None  # else it is stale\n"
        "            return candidate(batch, version, built, parent)\n"
        "\n"
        "        published = batch.standing.publications.publish(following)\n"
        "        assert published is not None  # the candidate is never None\n",
        "        def following(parent: Publication | None) -> Publication:\n"
        "            publications.refuse_stale(parent, live, extends=version.definitions.views)\n"
        "            assert parent is not None  # else it is stale\n"
        "            return candidate(batch, version, built, parent)\n"
        "\n"
        "        published = batch.standing.publications.publish(following)\n"
        "        assert published is not None  # the candidate is never None\n"
        "        compared += tuple(expected := _check_expectations(batch, version, built, live))\n"
        "        if not request.publish_anyway:\n"
        '            stays = f"publication {live.number} stays live; --publish-anyway publishes the rows as they are"\n'
        "            refuse_unmet(expected, stays)\n",
        "test_a_condition_that_stops_keeps_the_publication_and_names_the_worst_rows",
    ),
    Mutant(
        "condition-that-stops-nothing",
        "rows that do not meet a condition are published unless somebody asks to publish them anyway",
        "if not request.publish_anyway:\n            stays =",
        "if request.publish_anyway:\n            stays =",
        "test_a_condition_that_stops_keeps_the_publication_and_names_the_worst_rows",
    ),
    Mutant(
        "release-built-before-it-is-checked",
        "a release whose rows do not meet a condition can be promoted",
        'batch.standing.record("failed", replace(state, why=str(error)))\n        raise\n',
        'batch.standing.record("built", replace(state, kind="apply", gaps=gaps))\n        raise\n',
        "test_a_release_that_does_not_meet_a_condition_is_not_built_and_another_is",
    ),
    Mutant(
        "unknown-is-not-met",
        "a row for which a condition is NULL does not meet it",
        "WHERE {enclosed(condition.text)} IS FALSE",
        "WHERE {enclosed(condition.text)} IS NOT TRUE",
        "test_each_condition_is_what_python_says_of_every_row",
    ),
    Mutant(
        "gone-version-is-found",
        "an event finds a version with which the key was gone",
        "numbers[(numbers != _NONE) & gone[numbers]] = _NONE",
        "numbers[(numbers != _NONE) & gone[numbers] & (numbers < 0)] = _NONE",
        "test_look_ups_in_tables_at_any_cuts_are_nested_loops",
    ),
    Mutant(
        "unmatched-counts",
        "an event without a row counts although its view rejects such events",
        "cases += [f\"WHEN _unmatched{number} THEN {REASONS.index('unmatched')}\" for number, _ in enumerate(rejecting)]",
        "cases += []",
        "test_look_ups_in_tables_at_any_cuts_are_nested_loops",
    ),
    Mutant(
        "touched-without-the-last-time",
        "a changed version does not touch the events of the newest time",
        "ends = np.minimum(ends, until + 1)",
        "ends = np.minimum(ends, until)",
        "test_look_ups_in_tables_at_any_cuts_are_nested_loops",
    ),
    Mutant(
        "versions-of-the-run-before",
        "a recompute looks up in the versions that the last publication had",
        "parts, paths = each.kept[view.name], [file.file.path for file in each.views.files if file.view == view.name]",
        "parts, paths = each.kept[view.name], []",
        "test_incremental_runs_are_a_full_run_and_nested_loops",
    ),
    Mutant(
        "first-window-again",
        "of the windows that a changed version touches, only the first one is folded again",
        "slice_at(time_of(end - 1))[1]))",
        "slice_at(time_of(max(start, first)))[1]))",
        "test_incremental_runs_are_a_full_run_and_nested_loops",
    ),
    Mutant(
        "cut-passes-later-versions",
        "a cut passes commits that have looked up in versions beyond the cut of the table",
        "span.looked_up[name].most.at_or_below(end)",
        "span.looked_up[name].least.at_or_below(end)",
        "test_a_cut_passes_no_commit_that_knew_later_versions",
    ),
    Mutant(
        "look-ups-know-the-most",
        "a merged commit says that all of its micro-batches knew a table as far as the last of them",
        "TableEnds(by_distance[0], by_distance[-1], ",
        "TableEnds(by_distance[-1], by_distance[-1], ",
        "test_a_merged_commit_knew_of_a_table_the_least_and_the_most_of_its_parts",
    ),
    Mutant(
        "late-version-unlabelled",
        "rows are not labelled if a version came too late for the newer of their events only",
        "None if newest is None or before is None else max(newest, before)",
        "None if newest is None or before is None else min(newest, before)",
        "test_a_row_without_a_label_is_the_oracles_whatever_happens_in_between",
    ),
    Mutant(
        "first-late-version-unlabelled",
        "the first version that a commit did not know counts as known",
        'coalesce({_ENDS}."end", 0)',
        'coalesce({_ENDS}."end", 0) + 1',
        "test_a_row_without_a_label_is_the_oracles_whatever_happens_in_between",
    ),
    Mutant(
        "look-up-below-the-cut-only",
        "look-ups of the speed layer find no version that commits have added",
        "read[name] = overlay(base, from_ipc(table.added)) if table.added else base",
        "read[name] = base",
        "test_a_row_without_a_label_is_the_oracles_whatever_happens_in_between",
    ),
    Mutant(
        "files-without-the-tail",
        "look-ups in a table that is in files find no version that only commits have",
        "states_by_key.unite(view, [*states, states_by_key.of_keys(new, hashes)])",
        "states_by_key.unite(view, [*states, states_by_key.of_keys(new, hashes[:0])])",
        "test_look_ups_in_files_and_commits_agree_with_nested_loops",
    ),
    Mutant(
        "file-hides-the-tail",
        "the states of a key in a file hide those that commits have added to it",
        "merge_states(view, [table.drop_columns([_HASH]) for table in some])",
        "merge_states(view, [table.drop_columns([_HASH]) for table in some[:1]])",
        "test_look_ups_in_files_and_commits_agree_with_nested_loops",
    ),
    Mutant(
        "key-ends-with-its-batch",
        "a look-up reads the states of only one batch, if those of its key span two batches of a file",
        'np.searchsorted(there.lasts, hashes, "left"), np.searchsorted',
        'np.searchsorted(there.lasts, hashes, "right"), np.searchsorted',
        "test_look_ups_in_files_and_commits_agree_with_nested_loops",
    ),
    Mutant(
        "chain-by-the-event-alone",
        "of a table in files only the keys of a chain's first look-up are read",
        "for depth in range(deepest + 1):",
        "for depth in range(1):",
        "test_chains_in_files_and_commits_agree_with_nested_loops",
    ),
    Mutant(
        "chain-left-out-by-its-first",
        "an event without a row of a look-up that rejects is left out by a filter that reads the next one of the chain",
        "return _with_keys(expression, lookups) & {each.name for each in lookups}",
        "return expression.fields & {each.name for each in lookups}",
        "test_chains_of_look_ups_at_any_cuts_are_nested_loops",
    ),
    Mutant(
        "partials-below-an-earlier-cut",
        "after a rollback the versions between the earlier cut and the later one are not read again",
        "self._followers[source] = Follower(self.tables, self.release, source, cut)",
        "follower.dropped = cut",
        "test_after_a_rollback_a_row_without_a_label_is_the_oracles",
    ),
    Mutant(
        "table-marked-by-states",
        "rows of a table are not marked although realtime states are part of them, because they have no window",
        "return any(low < high for low, high in (layer.answers.index.rows(found) for layer in held.touching))",
        "return False",
        "test_rows_that_realtime_states_are_part_of_are_marked_in_every_way",
    ),
    Mutant(
        "rows-of-gone-keys",
        "a view of a table's rows counts rows that were deleted",
        "return merged.filter(pc.invert(pc.fill_null(gone, False)))",
        "return merged",
        "test_rows_of_a_table_at_any_cut_and_time_are_counted_as_the_model_does",
    ),
    Mutant(
        "rows-of-another-time",
        "a view of a table's rows has today's rows at every time",
        "return Selection(at=selection.at, reach=None)",
        "return Selection(reach=None)",
        "test_after_every_step_each_way_counts_the_rows_that_the_table_has",
    ),
    Mutant(
        "rows-stay-in-memory",
        "a view of a table's rows in memory stays as it was when it was folded first",
        "if not (isinstance(cached, RowsInMemory) and cached.stands_at(snapshot.publication.release, batch, tail)):",
        "if not isinstance(cached, RowsInMemory):",
        "test_after_every_step_each_way_counts_the_rows_that_the_table_has",
    ),
    Mutant(
        "rows-unmarked",
        "rows of a view of a table's rows are not marked although a version above the cut may have replaced one of theirs",
        "touched = marks_tail(provenance.exactness) and any(part.states.num_rows for part in after)",
        "touched = False",
        "test_rows_that_may_change_are_marked_in_every_way",
    ),
    Mutant(
        "table-clock-over-log",
        "a table of change events takes the greatest commit time, so a clock that was set back hides changes",
        'for number, name in (numbers if self.order == "time" else',
        "for number, name in (numbers if self.order else",
        "test_a_table_is_the_database_at_every_position",
    ),
    Mutant(
        "lookup-empty-text",
        "an empty field of a file is a text",
        "{name: value or None for name, value in zip(header, values, strict=True)}",
        "{**zip(header, values, strict=True)}",
        "test_look_ups_at_any_cut_are_nested_loops",
    ),
    Mutant(
        "lookup-column-not-read",
        "the lineage of a column lacks the field by which it is looked up",
        "read = read.union(*(key.fields for key in each.keys))",
        "read = expression.fields",
        "test_the_oracle_looks_up_the_same_and_only_read_columns_are_read",
    ),
    Mutant(
        "lookup-key-unjudged",
        "an event for which the key of a look-up fails counts as one without a row",
        "        used += [reading_events(key, self.lookups) for lookup in self.lookups for key in lookup.keys]",
        "        used += []",
        "test_look_ups_at_any_cut_are_nested_loops",
    ),
    Mutant(
        "lookup-other-content",
        "another content of a file has the same fingerprint, so nothing is computed again",
        "return [table.key, texts, bound.keys[0].canonical, *missing, *types]",
        "return [table.key, bound.keys[0].canonical, *missing, *types]",
        "test_the_oracle_looks_up_the_same_and_only_read_columns_are_read",
    ),
    Mutant(
        "lookup-file-not-stored",
        "a release lacks the file, so no worker can load it",
        "if name == SQL_FILE or name in loader.tables},",
        "if name == SQL_FILE},",
        "test_a_release_has_the_file_and_plan_names_its_change",
    ),
    Mutant(
        "table-last-in-the-log",
        "a late version takes the place of a newer one",
        'in (numbers if self.order == "time" else [*numbers[1:], numbers[0]])}',
        "in [*numbers[1:], numbers[0]]}",
        "test_a_table_at_any_cut_and_time_is_the_models",
    ),
    Mutant(
        "table-gone-stays",
        "a key that is gone keeps its row",
        "gone IS NOT TRUE",
        "gone IS NOT NULL OR TRUE",
        "test_a_table_at_any_cut_and_time_is_the_models",
    ),
    Mutant(
        "table-null-is-skipped",
        "a version without a value has the value of the version before",
        'fold=f"max({packed})", merge="max({0})")',
        'fold=f"max({packed}) FILTER ({{0}} IS NOT NULL)", merge="max({0})")',
        "test_a_table_at_any_cut_and_time_is_the_models",
    ),
    Mutant(
        "table-before-the-time",
        "a version is not valid at the instant at which it begins",
        "pc.field(VALID_FROM) <= python_values",
        "pc.field(VALID_FROM) < python_values",
        "test_every_way_of_asking_has_the_versions_of_a_time",
    ),
    Mutant(
        "table-of-the-latest",
        "a table at a time is taken from the latest versions, so keys that have newer ones lack a row",
        "(root(view), of_root(view, selection)) if by_root else (view, selection)",
        "(root(view), of_root(view, selection)) if isinstance(view, RowsView) else (view, replace(selection, at=None))",
        "test_every_way_of_asking_has_the_versions_of_a_time",
    ),
    Mutant(
        "table-at-another-time",
        "an answer over HTTP at one time is given for another",
        "(asked.start, asked.end) if asked.at is None else (asked.start, asked.end, asked.at),",
        "(asked.start, asked.end),",
        "test_every_way_of_asking_has_the_versions_of_a_time",
    ),
    Mutant(
        "sources-one-batch",
        "an answer over several sources lacks the batch states of all but the first",
        "        for part in parts(first):\n            live = batch_of",
        "        for part in parts(first)[:1]:\n            live = batch_of",
        "test_after_every_step_all_answers_are_the_models",
    ),
    Mutant(
        "sources-final-too-soon",
        "a window of several sources is final once the first of them is past it",
        "    return min(there) if len(there) == len(watermarks) else None",
        "    return max(there, default=None)",
        "test_after_every_step_all_answers_are_the_models",
    ),
    Mutant(
        "sources-cut-of-one",
        "a token over several sources is looked up by the cut of the first of them",
        "unite({name: publication.cut(name) for name in names})",
        "unite({name: publication.cut(names[0]) for name in names})",
        "test_after_every_step_all_answers_are_the_models",
    ),
    Mutant(
        "sources-end-at-the-cut",
        "the position of an answer over several sources is their cuts",
        "    end = unite({source: tail.end for source, tail in parts.items()})",
        "    end = unite({source: tail.cut for source, tail in parts.items()})",
        "test_after_every_step_all_answers_are_the_models",
    ),
    Mutant(
        "sources-of-one-topic",
        "of two sources of one topic, the position is that of the source further ahead",
        "            least[place] = min([offset, *behind])",
        "            least[place] = max([offset, *behind])",
        "test_after_every_step_all_answers_are_the_models",
    ),
    Mutant(
        "sources-neutral-counts",
        "where a source has no event, its measures have the state of one",
        "pa.Table.from_arrays([pa.array([False]), *nulls]",
        "pa.Table.from_arrays([pa.array([True]), *nulls]",
        "test_states_of_another_source_change_nothing",
    ),
    Mutant(
        "paired-beyond-a-double",
        "the batch version of a view over several sources has digits that JavaScript loses",
        "    if first < _PAIRED_MOST:\n        return first\n",
        "    if first >= 0:\n        return first\n",
        "test_numbers_of_many_sources_are_different_and_below_the_limit_of_javascript",
    ),
    Mutant(
        "sources-hot-of-one-epoch",
        "hot commits that another process of one of the sources has folded again are taken for the earlier ones",
        "pair_numbers([tail.hot[0].epoch + 1 if tail.hot else 0 for tail in parts.values()])",
        "max([tail.hot[0].epoch if tail.hot else 0 for tail in parts.values()])",
        "test_a_hot_tail_of_one_source_starts_again",
    ),
    Mutant(
        "funnel-time-from-the-step-before",
        "an attempt's time runs from the step before, so slow users count for the last step",
        "        start = np.maximum.accumulate(np.where(reached, before, -1))\n",
        "        start = np.maximum.accumulate(np.where(reached, numbers, -1))\n",
        "test_a_funnel_at_any_cut_is_every_choice_tried",
    ),
    Mutant(
        "funnel-first-attempt-only",
        "an attempt never begins again, so a user who came back in time is not counted",
        "        before = numbers if step == 0 else np.concatenate(([-1], start[:-1]))\n",
        "        before = events.begin if step == 0 else np.concatenate(([-1], start[:-1]))\n",
        "test_a_funnel_at_any_cut_is_every_choice_tried",
    ),
    Mutant(
        "funnel-one-event-two-steps",
        "an event that meets two conditions is two steps of one attempt",
        "np.concatenate(([-1], start[:-1]))\n",
        "start\n",
        "test_a_funnel_at_any_cut_is_every_choice_tried",
    ),
    Mutant(
        "matches-only-the-shortest",
        "a match ends as soon as it can, so the rows that it prefers to take begin another",
        "next((target for target in targets if target == END or",
        "next((target for target in sorted(targets) if target == END or",
        "test_matches_at_any_cut_are_those_of_regular_expressions",
    ),
    Mutant(
        "matches-overlap",
        "the next match begins at the second row of the one before, so one row is in two matches",
        "        free = row\n",
        "        free = first + 1\n",
        "test_matches_at_any_cut_are_those_of_regular_expressions",
    ),
    Mutant(
        "matches-of-two-sequences",
        "a match goes on in the rows of the next user or key",
        "        if ends[class_]:\n            state = 0\n",
        "",
        "test_matches_at_any_cut_are_those_of_regular_expressions",
    ),
    Mutant(
        "matches-one-symbol-a-row",
        "a row that has several symbols has only the last of them",
        "if bits >> self.pattern.bits[place] & 1)\n",
        "if bits.bit_length() - 1 == self.pattern.bits[place])\n",
        "test_matches_at_any_cut_are_those_of_regular_expressions",
    ),
    Mutant(
        "previous-row-of-another-sequence",
        "PREV reads the last row of the sequence before",
        "        valid = (there == numbers) & (self.begin[there] == self.begin[of])\n",
        "        valid = there == numbers\n",
        "test_matches_at_any_cut_are_those_of_regular_expressions",
    ),
    Mutant(
        "pairs-with-itself",
        "an event that is on both sides is in a pair with itself",
        "    start = before[left]\n",
        "    start = before[left] - right[left]\n",
        "test_pairs_at_any_cut_are_those_of_nested_loops",
    ),
    Mutant(
        "pairs-without-the-last-moment",
        "a right event exactly at the end of the time is in no pair",
        "np.lexsort((np.arange(len(times)) >= number, times, sequence))",
        "np.lexsort((np.arange(len(times)) < number, times, sequence))",
        "test_pairs_at_any_cut_are_those_of_nested_loops",
    ),
    Mutant(
        "pairs-of-different-users",
        "the right event of a pair may be another user's",
        "    end = _until(events, left, events.time[left] + within, before)\n",
        "    end = np.searchsorted(events.time[right], events.time[left] + within, side='right')\n",
        "test_pairs_at_any_cut_are_those_of_nested_loops",
    ),
    Mutant(
        "pairs-value-of-each-left-event-once",
        "the value of a left event is added once, and not for each of its pairs",
        "units[self.left] * (self.end - self.start)",
        "units[self.left]",
        "test_pairs_at_any_cut_are_those_of_nested_loops",
    ),
    Mutant(
        "pairs-value-of-the-first-right-event",
        "of the right events of a left one the first one's value is not added",
        "running[self.end] - running[self.start]",
        "running[self.end] - running[np.minimum(self.start + 1, self.end)]",
        "test_pairs_at_any_cut_are_those_of_nested_loops",
    ),
    Mutant(
        "pairs-longest-of-the-first",
        "the longest wait is that for the first right event",
        "np.maximum.at(self.longest, group, times[end - 1] - begin)",
        "np.maximum.at(self.longest, group, times[start] - begin)",
        "test_pairs_at_any_cut_are_those_of_nested_loops",
    ),
    Mutant(
        "first-row-of-a-match-is-its-last",
        "FIRST(a.x) reads the last row that the match took for a",
        "or (self.first and before >= 0) else row\n",
        "else row\n",
        "test_matches_at_any_cut_are_those_of_regular_expressions",
    ),
    Mutant(
        "tried-with-other-rows",
        "a way that failed with other rows of the match is not tried with these",
        "if taken is None or (place, row, taken) in tried:",
        "if taken is None or any((place, row) == each[:2] for each in tried):",
        "test_a_way_that_failed_is_tried_with_other_rows_of_the_match",
    ),
    Mutant(
        "rows-of-the-match-before",
        "LAST(a.x) in the definition of a reads the row of a before the row that is tried",
        "            return after if pairs.met(row, after[reads[bit]], bit) else None\n",
        "            return after if pairs.met(row, rows[reads[bit]], bit) else None\n",
        "test_matches_at_any_cut_are_those_of_regular_expressions",
    ),
    Mutant(
        "sequence-arrival-order",
        "merged states have events in the order of their arrival, so a late event is matched after those that it preceded",
        "OR len({united}) > {limit} THEN [] ELSE list_sort({united}) END",
        "OR len({united}) > {limit} THEN [] ELSE {united} END",
        "test_a_funnel_at_any_cut_is_every_choice_tried",
    ),
    Mutant(
        "sequence-back-below-the-limit",
        "a set that had too many events is filled again by those that come later",
        "bool_or(len({{0}}) = 0) OR len({united})",
        "len({united})",
        "test_a_funnel_at_any_cut_is_every_choice_tried",
    ),
    Mutant(
        "a-slice-in-two-windows",
        "a rollup's days may begin inside a slice of its parent, so the slice counts for one of two days that share it",
        "    inside = _start_inside(window, slice_ // MICROSECOND, first, last)",
        "    inside = _start_inside(window, 1, first, last)",
        "test_what_cannot_be_rolled_up_is_refused_in_a_sentence",
    ),
    Mutant(
        "rollup-unlabelled",
        "a row of a rollup is not marked although realtime states are part of it",
        "            new = [one.states for one in after] if marks_tail(provenance.exactness) else []",
        "            new = [one.states for one in after if view is root(view)]",
        "test_a_row_has_the_labels_of_the_parents_rows_in_it",
    ),
    Mutant(
        "rollup-elsewhere",
        "a rollup counts hot commits that lack the states of its root, so it stands beyond the root",
        "        first = root(view)\n        if first.name not in self._own:",
        "        first = view\n        if first.name not in self._own:",
        "test_after_every_step_answers_are_those_of_the_log_at_their_position",
    ),
    Mutant(
        "rollup-of-a-part",
        "a window of a rollup stays after some of its slices have left, and counts the others alone",
        "        parts_ = (*live.log_parts, replace(parts_[-1], windows=(start, first_at(end))))",
        "        parts_ = (*live.log_parts, replace(parts_[-1], windows=(start, end)))",
        "test_a_window_leaves_with_the_first_of_its_slices",
    ),
    Mutant(
        "rollup-cut-short",
        "a range of a rollup's windows lacks the slices of its last window",
        "    return replace(selection, end=None if end is None else timing.slice_at(end)[1], reach=timedelta(0))",
        "    return replace(selection, end=end, reach=timedelta(0))",
        "test_a_range_of_windows_reads_the_slices_of_its_last_window",
    ),
    Mutant(
        "rollup-key-below",
        "states of a rollup's root are selected by a key that the rollup computes of another with the same name",
        "    same = {name: plain[sql] for name, sql in over.items() if sql in plain}",
        "    same = {name: name for name in over if name in plain.values()}",
        "test_after_every_step_memory_reader_and_oracle_agree",
    ),
    Mutant(
        "alias-for-import",
        "a fingerprint hashes the local name of an import instead of the imported object, so another import under the "
        "same name goes unnoticed",
        '            return Reference(Foreign(tuple(submodule.split("."))))',
        '            return Reference(Foreign((origin.split(".")[0], alias.asname or alias.name)))',
        "test_code_that_reaches_something_else_has_another_fingerprint",
    ),
    Mutant(
        "joins-at-its-end",
        "a topic that joins a pattern is read from its end, so its first records are never counted",
        "        begin, kept = start.get(partition, firsts[partition]), held.get(partition, 0)",
        "        begin, kept = start.get(partition, ends[partition]), held.get(partition, 0)",
        "test_a_pattern_without_topics_has_an_empty_log_until_the_first_one_joins",
    ),
    Mutant(
        "topics-by-name",
        "a source orders its topics by name, so a topic that joins changes the order of the counted ones",
        "        return tuple(self.topic_names())",
        "        return tuple(sorted(self.topic_names(), key=self.topic_names().get))",
        "test_topics_join_and_go_at_any_moment_and_answers_are_those_of_the_log",
    ),
    Mutant(
        "alive-is-well",
        "a speed layer whose process lives is reported as running, even if it makes no progress",
        "    if silent > SILENT:",
        "    if silent > timedelta.max:",
        "test_a_living_speed_layer_whose_last_beat_is_old_is_stuck",
    ),
    Mutant(
        "any-record-will-do",
        "`--wait` returns once as many records of other partitions are counted as the caller waits for",
        "return sum(distance(counted.get(source, Position()), position) for source, position in wanted.items())",
        "return sum(\n"
        "        max(0, sum(position.values()) - sum(counted.get(source, Position()).values()))\n"
        "        for source, position in wanted.items()\n"
        "    )",
        "test_only_the_given_positions_are_waited_for",
    ),
    Mutant(
        "at-the-cut",
        "a commit that ends exactly at the cut counts as above it (`<` instead of `<=`), so its events count twice",
        "if span.mark or span.end.at_or_below(cut):",
        "if span.mark or (span.end.at_or_below(cut) and span.end != cut):",
        "test_the_chain_runs_from_the_cut_to_the_last_commit",
    ),
    Mutant(
        "erased-value-in-quarantine",
        "an erasure leaves the first bytes of a record that did not decode in a row of the quarantine",
        "            yield tables.quarantine(source, decoder), RECORDS\n",
        "",
        "test_no_file_has_a_text_of_the_records",
    ),
    Mutant(
        "erased-value-in-a-raised-row",
        "an erasure leaves the values of a raised row, which counted the records, in what is stored of its alert",
        "    return replace(row, row=now.row, text=now.text)\n",
        "    return row\n",
        "test_neither_edges_nor_messages_have_them",
    ),
    Mutant(
        "published-before-written",
        "a publication names batch versions before their files are committed, so readers find no rows",
        "        commit(batch.tables, version, built)\n"
        "        compared += tuple(expected := _check_expectations(batch, version, built, live))\n"
        "        if not request.publish_anyway:\n"
        '            stays = f"publication {live.number} stays live; --publish-anyway publishes the rows as they are"\n'
        "            refuse_unmet(expected, stays)\n"
        "\n"
        "        def following(parent: Publication | None) -> Publication:\n"
        "            publications.refuse_stale(parent, live, extends=version.definitions.views)\n"
        "            assert parent is not None  # else it is stale\n"
        "            return candidate(batch, version, built, parent)\n"
        "\n"
        "        published = batch.standing.publications.publish(following)\n",
        "        compared += tuple(expected := _check_expectations(batch, version, built, live))\n"
        "        if not request.publish_anyway:\n"
        '            stays = f"publication {live.number} stays live; --publish-anyway publishes the rows as they are"\n'
        "            refuse_unmet(expected, stays)\n"
        "\n"
        "        def following(parent: Publication | None) -> Publication:\n"
        "            publications.refuse_stale(parent, live, extends=version.definitions.views)\n"
        "            assert parent is not None  # else it is stale\n"
        "            return candidate(batch, version, built, parent)\n"
        "\n"
        "        published = batch.standing.publications.publish(following)\n"
        "        commit(batch.tables, version, built)\n",
        SIMULATION,
    ),
    Mutant(
        "commits-rebased",
        "delta-rs retries a stale commit on a newer version that the writer has not read, so fencing fails",
        "_ONCE: Final = CommitProperties(max_commit_retries=0)",
        "_ONCE: Final = CommitProperties()",
        "test_a_stale_handle_commits_nothing",
    ),
    Mutant(
        "ranges-from-rows",
        "a micro-batch covers only the partitions with events instead of the whole plan, so other offsets stay uncovered",
        "        there = still_there()\n",
        "        there = still_there()\n"
        "        end = Position.of({p: at if p in folded.maxima else state.end.get(p, 0) for p, at in end.items()})\n",
        SIMULATION,
    ),
    Mutant(
        "mixed-cut",
        "a cut takes for each partition the smaller position of speed and archive, so it mixes two boundaries and commits "
        "straddle it",
        "    return Choice(reached[-1] if reached else cut, bridge=False)",
        "    return Choice(Position.of({p: min(at, whole.end.get(p, 0)) for p, at in archive_end.items()}), bridge=False)",
        "test_a_cut_is_chosen_across_bridges_too",
    ),
    Mutant(
        "bridge-crossed",
        "a reader crosses a bridge before a batch view covers it, so events are missing from answers",
        "bridge = None if across_bridges else next(",
        "bridge = None if across_bridges is not None else next(",
        "test_the_answer_ends_at_a_bridge",
    ),
    Mutant(
        "parent-unchecked",
        "a run extends a batch version that is no longer live, so events count twice or not at all",
        "        if parent.views.get(view) != started_from.views.get(view):",
        "        if view not in parent.views:",
        "test_the_release_that_a_run_started_from_must_still_be_live",
    ),
    Mutant(
        "windows-at-a-newer-cut",
        "a recompute of some windows also folds events above the published cut, which realtime views count again",
        '        return RecomputeStep(source, "windows", LOG_START, published, parts, windows=windows)',
        '        return RecomputeStep(source, "windows", LOG_START, None, parts, windows=windows)',
        SIMULATION,
    ),
    Mutant(
        "partial-drops-copies",
        "`partial` drops equal events that are folded together, although only `deduplicate` may drop duplicates",
        "    prepare = bind(view).placement.steps.fold.prepare\n",
        '    fields = [name for name in events.column_names if not name.startswith("_")]\n'
        "    first = {repr(row): n for n, row in reversed([*enumerate(events.select(fields).to_pylist())])}\n"
        "    events = events.take(sorted(first.values()))\n"
        "    prepare = bind(view).placement.steps.fold.prepare\n",
        "test_a_null_is_a_key_like_any_other",
    ),
    Mutant(
        "compacted-across-a-reservation",
        "compaction merges commits across a cut that a batch run has reserved, so the cut is no longer a boundary",
        "for position in (live, *protect, *(span.start for span in reserved))}",
        "for position in (live, *protect)}",
        "test_protected_boundaries_stay_and_every_reader_reads_the_same",
    ),
    Mutant(
        "stale-handle",
        "a commit that was decided on an old version of the table is accepted on the newest version",
        "    def append() -> None:\n        write_deltalake(\n",
        "    def append() -> None:\n        handle.update_incremental()\n        write_deltalake(\n",
        "test_a_stale_handle_commits_nothing",
    ),
    Mutant(
        "epoch-unchecked",
        "a writer continues after another writer has claimed the table, so both count the same events",
        "        if newest > self.epoch:",
        "        if newest > self.epoch and not self._spans:",
        "test_a_newer_writer_fences_an_older_one",
    ),
    Mutant(
        "expired-below-the-newest-cut",
        "maintenance expires commits below the newest cut, although an older retained publication still needs them",
        "all(span.end.at_or_below(cut) for cut in retained)",
        "any(span.end.at_or_below(cut) for cut in retained)",
        "test_only_commits_below_every_cut_expire",
    ),
    Mutant(
        "ahead-moves-the-watermark",
        "one event with a time in the far future labels the windows of all others final",
        "    events = not_ahead(source, events)\n    rows",
        "    rows",
        "test_one_far_event_moves_nothing_and_the_next_one_does",
    ),
    Mutant(
        "late-events-dropped",
        "events behind the watermark are dropped instead of labelled",
        "    prepared = prepare(source, events, task.generations)\n",
        "    if task.watermark is not None:\n"
        "        times = events[source.event_time].cast(pa.int64()).to_numpy()\n"
        "        events = events.filter(pa.array(times >= task.watermark))\n"
        "    prepared = prepare(source, events, task.generations)\n",
        "test_within_the_dedup_window_any_split_counts_the_same",
    ),
    Mutant(
        "merge-by-arrival",
        "the merge of two extremes keeps the first one instead of the smaller or larger",
        "fold=aggregate, merge=aggregate)",
        'fold=aggregate, merge="first({0})")',
        "test_merge_is_commutative",
    ),
    Mutant(
        "minus-zero",
        "-0.0 is not normalised to 0.0, so equal numbers become two keys",
        "        return pc.add(numbers, 0.0)  # -0.0 becomes 0.0",
        "        return numbers",
        "test_negative_zero_becomes_zero",
    ),
    Mutant(
        "unacknowledged-is-failed",
        "a commit whose acknowledgement was lost counts as failed, so its events are committed again",
        "            except (Conflict, Unwritable) as error:\n                self._look()\n",
        "            except (Conflict, Unwritable) as error:\n"
        "                if isinstance(error, delta.Unwritable):\n"
        "                    raise\n"
        "                self._look()\n",
        "test_a_commit_that_landed_despite_an_error_is_not_repeated",
    ),
    Mutant(
        "cut-steps-back",
        "a publication may have an earlier cut than the one before, so answers go back in time",
        "        if not cut.at_or_below(candidate.cut(source)):",
        "        if source not in candidate.cuts:",
        "test_a_cut_never_steps_back_within_a_release",
    ),
    Mutant(
        "gone-before-it-is-live",
        "maintenance deletes files that a promotion is about to publish, if the release is recomputed or retired at that moment",
        'one.stage == "built" and one.state.parent >= live)',
        'one.stage == "built" and one.state.parent > live)',
        "test_every_file_of_a_promoted_release_exists",
    ),
    Mutant(
        "shared-table-dropped",
        "maintenance drops a table by its name alone, although another release or a renamed view still uses it",
        "views = set(view_tables(tables, keep, kept))",
        "views = set(view_tables(tables, keep, ()))",
        NAMED,
    ),
    Mutant(
        "needed-record-expired",
        "maintenance expires records whose windows have not left, because it asks only for the records' own timestamps",
        "*staying_files(events, first)]",
        "*staying_files([], first)]",
        "test_records_leave_with_the_windows_and_answers_stay",
    ),
    Mutant(
        "windows-shrunk",
        "a view is folded from the part of its events that has not expired",
        '    if until is None or step.kind == "incremental" or not maxima:\n',
        '    if until is None or step.kind == "full" or not maxima:\n',
        "test_no_definition_counts_windows_of_which_records_are_gone",
    ),
    Mutant(
        "shared-version-expired",
        "maintenance expires a batch version that another view uses, because it checks only the view that created the table",
        "        if live.address(tables, name) == address",
        "        if tables.view(name, live.fingerprint) == address",
        NAMED,
    ),
    Mutant(
        "first-by-arrival",
        "`first` takes the first folded event of several with one time, instead of the first in the log",
        'fold=f"{self.end}({packed}) FILTER ({{0}} IS NOT NULL)",',
        'fold=f"arg_{self.end}({packed}, {{1}}) FILTER ({{0}} IS NOT NULL)",',
        "test_events_of_one_time_go_by_their_places",
    ),
    Mutant(
        "tail-called-exact",
        "rows with realtime states have no reason against exactness, so rows that may count a late duplicate are labelled exact",
        "        found[engine.query(sql, tables)[_ROW].to_numpy()] = True",
        "        pass",
        "test_every_interface_marks_exactly_the_rows_with_realtime_states",
    ),
    Mutant(
        "lists-told-as-one-event",
        "the estimate of a run counts offsets instead of events, so a record with a list counts as one event",
        '        each=1 + (row.get(f"max.{INDEX}") or 0),',
        "        each=1,",
        "test_the_estimate_of_records_with_several_events_counts_events",
    ),
    Mutant(
        "dedup-window-off-by-one",
        "the dedup window evicts an identity a microsecond too early: at the end of its span instead of after it",
        "self.caught_up - self.span))",
        "self.caught_up - self.span + 1))",
        "test_an_identity_is_kept_to_the_end_of_its_span",
    ),
    Mutant(
        "collision-believed",
        "an event whose digest shares its first word with another counts as a duplicate, although the other words differ",
        "        identity[one] = self.rest[at, 0] == keys[one, 1]\n",
        "        identity[one] = True\n",
        "test_a_hash_collision_is_not_a_duplicate",
    ),
    Mutant(
        "collision-dropped",
        "a full recompute drops an event whose hash is also another identity's, as if equal hashes were equal identities",
        "    return kernel.deduplicate(source, events, generations=generations)\n",
        "    made = IdentityHash.of_source(source)\n"
        "    assert made is not None\n"
        "    first = np.unique(made.made(events).to_numpy(), return_index=True)[1]\n"
        "    kept = np.isin(np.arange(events.num_rows), first)\n"
        "    return Deduplicated(events.filter(pa.array(kept)), int((~kept).sum()), 0, kept)\n",
        "test_the_fold_counts_what_the_kernel_counts",
    ),
    Mutant(
        "hash-of-half-an-identity",
        "the column of hashes is named after a part of the identity, so the hashes of another identity are believed",
        "msgspec.json.encode([duckdb.__version__, self.columns])",
        "msgspec.json.encode([duckdb.__version__, self.columns[:1]])",
        "test_hashes_of_another_identity_are_not_read",
    ),
    Mutant(
        "suspects-forgotten",
        "the search leaves suspects to a fold that does not get the hashes of all of them, so duplicates count",
        "return RepeatedHashes(suspects=files)",
        "return RepeatedHashes(suspects=files[1:])",
        "test_the_fold_counts_what_the_kernel_counts",
    ),
    Mutant(
        "suspect-in-every-bucket",
        "each bucket keeps the states of all suspects, not only those of its own keys, so these events count several times",
        "                if at == bucket:\n",
        "                if True:\n",
        "test_the_fold_counts_what_the_kernel_counts",
    ),
    Mutant(
        "filter-forgets",
        "tasks do not get the newest run of identities, so duplicates of the last counted events count",
        "tuple(run.words for run in self.runs)",
        "tuple(run.words for run in self.runs[:-1])",
        "test_within_the_dedup_window_any_split_counts_the_same",
    ),
    Mutant(
        "suspect-twice",
        "the driver keeps a known duplicate if it is the first of its identity within its task",
        "first & stays & suspect)",
        "first & suspect)",
        "test_within_the_dedup_window_any_split_counts_the_same",
    ),
    Mutant(
        "folded-again-whole",
        "the driver folds the events that a task returned without dropping duplicates of other tasks, so these count twice",
        "task, events.filter(pa.array(~dropped))",
        "events",
        "test_within_the_dedup_window_any_split_counts_the_same",
    ),
    Mutant(
        "stamped-ahead",
        "one record with a timestamp in the future evicts the identities of all others",
        "        after = replace(self, times=times, caught_up=caught_up, newest=max(stamps, default=None))\n",
        "        after = replace(self, times=times, caught_up=max(stamps, default=None), newest=max(stamps, default=None))\n",
        "test_identities_that_the_rule_keeps_are_kept",
    ),
    Mutant(
        "never-behind",
        "the dedup window uses a commit's own time as the time until which the log was counted, also if the layer lags, "
        "so duplicates count",
        "        if end.position.at_or_below(reached):\n",
        "        if True:\n",
        "test_a_duplicate_received_within_the_dedup_window_never_counts",
    ),
    Mutant(
        "times-lost-in-compaction",
        "a compacted commit has the time of its first part, so its identities are evicted too early",
        "at=max((commit.at for commit in folds if commit.at), default=None)",
        "at=min((commit.at for commit in folds if commit.at), default=None)",
        "test_a_duplicate_received_within_the_dedup_window_never_counts",
    ),
    Mutant(
        "recalled-by-timestamp",
        "a restart loads identities by the records' timestamps instead of the commits' times, so duplicates count",
        "            if stamped or self.caught_up is None or one.at >= self.caught_up - dedup_window:\n",
        "            if stamped:\n",
        SIMULATION,
    ),
    Mutant(
        "stale-session",
        "memory answers with a session that has become part of another, from a layer that a newer one replaces",
        "            if low < high or (not layout.by_window and reader.knows(found)):",
        "            if False:",
        "test_a_merged_session_no_longer_exists",
    ),
    Mutant(
        "lost-in-compaction",
        "memory skips a compacted commit that has both counted and new events, so the new events are missing",
        "            held, after = replace(held, end=held.cut, tail=(), alone=()), 0",
        "            after = len(tail.commits)",
        "test_commits_compacted_across_a_readers_position_count_once",
    ),
    Mutant(
        "hash-believed",
        "memory returns a row whose key has the same hash as the requested key, without comparing the keys",
        "                if reader.key(place) == key:",
        "                if reader.key(place) is not None:",
        "test_rows_by_key_by_range_and_all_equal_the_kernels",
    ),
    Mutant(
        "present-first",
        "an archive run begins at a partition's current start, although records were deleted since an earlier poll found "
        "it empty, so they are lost without a gap",
        "for partition, offset in {**known, **firsts}.items() if",
        "for partition, offset in starts.items() if",
        LOSSES,
    ),
    Mutant(
        "later-first-wins",
        "a first offset that is recorded later replaces an earlier one, so a loss is no longer recognised",
        "found[partition] = min(offset, found.get(partition, offset))",
        "found[partition] = offset",
        "test_a_later_poll_does_not_move_a_first_offset",
    ),
    Mutant(
        "left-the-filter-unsent",
        "a row that leaves the filter of a reader is sent as a changed row, not as gone",
        "(only.rows(_rows(held, hashes)) for held in (before, after))",
        "(only.rows(_rows(before, hashes)), _rows(after, hashes))",
        "test_a_row_that_leaves_the_filter_is_gone_and_one_that_enters_it_is_new",
    ),
    Mutant(
        "looked-and-forgot",
        "the speed layer counts without recording the log's first offsets, so a later loss is not recognised",
        "    firsts = ledger.record_firsts(firsts, at=at)\n",
        "",
        LOSSES,
    ),
    Mutant(
        "firsts-of-an-early-look",
        "a process continues from its own first offsets although another recorded earlier ones, so it lacks identities",
        "known.update(_recorded(snapshot.rows()))",
        "known.update({p: offset for p, offset in _recorded(snapshot.rows()).items() if p not in firsts})",
        "test_a_process_that_looked_too_early_continues_with_the_recorded_offsets",
    ),
    Mutant(
        "first-as-if-new",
        "the speed layer takes the current start of a partition that the archive lacks as its first offset, so it skips "
        "lost records without a name",
        "firsts = first_offsets(lows, topics, known=known, names=recorded)",
        "firsts = {p: known.get(p, 0) if p in held else low for p, low in lows.items()}",
        LOSSES,
    ),
    Mutant(
        "lost-unseen",
        "losses in a partition that the archive lacks are not reported",
        "    for partition, end in begins.items():\n",
        "    for partition, end in ((p, e) for p, e in begins.items() if p in archived):\n",
        LOSSES,
    ),
    Mutant(
        "behind-an-empty-range",
        "the archive stays below a partition's first offset although the speed layer is there already, so no cut passes it",
        "    if start != end:\n",
        "    if ranges(start, end, fresh).length:\n",
        "test_a_topic_emptied_before_the_first_poll_and_recreated_has_a_gap",
    ),
    Mutant(
        "former-forgotten",
        "counted records of a deleted topic are not part of the archive run's range, so they are lost without a gap",
        "    if ArchiveLedger(tables, source).topic_names().keys() <= set(present):",
        "    if present:",
        LOSSES,
    ),
    Mutant(
        "live-cut-read-last",
        "maintenance reads the live cut after the retained cuts, so it compacts across a cut that was published in between",
        "    live = cut_of(tables, release.number, source)\n"
        "    end = ArchiveLedger(tables, source).end(release.sources[source])\n"
        "    kept = followed.retained(at, publications=keep.publications, since=at - timedelta(days=keep.days))\n"
        "    cuts = [state.cut(source) for state in kept if state.release == release.number]\n",
        "    end = ArchiveLedger(tables, source).end(release.sources[source])\n"
        "    kept = followed.retained(at, publications=keep.publications, since=at - timedelta(days=keep.days))\n"
        "    cuts = [state.cut(source) for state in kept if state.release == release.number]\n"
        "    live = cut_of(tables, release.number, source)\n",
        "test_a_publication_between_two_reads_of_maintenance_is_readable",
    ),
    Mutant(
        "committed-unasked",
        "a micro-batch is committed without a check that the log is still the fetched one",
        "still_there=lambda: self._still_there(start)",
        "still_there=lambda: None",
        "test_no_record_counts_for_an_earlier_topic_of_the_same_name",
    ),
    Mutant(
        "copied-unasked",
        "records of a recreated topic stay in the archive under the deleted topic, if they were copied during the change",
        "doubtful = copy.doubtful(files, whole, starts)",
        "doubtful = frozenset[str]()",
        "test_no_record_counts_for_an_earlier_topic_of_the_same_name",
    ),
    Mutant(
        "taken-out-but-typed",
        "records that a run removes from the archive stay in the events table, where the same tasks have decoded them",
        "            decoded = decoded if whole else None\n",
        "",
        "test_records_that_a_run_removes_from_the_archive_are_in_no_other_table",
    ),
    Mutant(
        "typed-and-unchecked",
        "a run whose records are already decoded skips the check for lost offsets",
        "                names, whole = _gaps(batch, log, ledger, run)\n",
        "                names, whole = _gaps(batch, log, ledger, run) if decoded is None else ([], True)\n",
        LOSSES,
    ),
    Mutant(
        "copied-twice",
        "two files of one run with the same offsets are both committed to the archive",
        "        if low < start or rows",
        "        if rows",
        "test_repeated_or_unplanned_offsets_are_refused",
    ),
    Mutant(
        "read-twice",
        "two tasks of an archive run read the same piece of the log",
        "(partition, interval) for interval in pairwise(bounds)",
        "(partition, (max(start, low - 1), high)) for low, high in pairwise(bounds)",
        "test_each_task_reads_another_piece_of_the_planned_ranges",
    ),
    Mutant(
        "piece-read-beyond-its-end",
        "a task of an archive run also reads records of the piece after its own",
        'read.records.filter(pc.less(read.records["offset"], end))',
        "read.records",
        "test_pieces_of_a_partition_hold_each_record_once",
    ),
    Mutant(
        "decoded-under-another-release",
        "the archive is decoded for a standing release by the decoder of the live one",
        "            decode_archived(batch, release, source)\n",
        "            decode_archived(batch, replace(release, files=live.files), source)\n",
        "test_each_release_has_the_events_as_its_own_decoder_reads_them",
    ),
    Mutant(
        "key-repeated-unsearched",
        "a value of required members alone is not searched for a key that it has twice",
        "strict_searches(keys, odd, colons=colons)",
        "strict_searches(keys, odd, colons=colons + 1)",
        "test_a_repeated_key_is_marked_where_no_further_member_is",
    ),
    Mutant(
        "copied-but-not-typed",
        "records that were copied without decoding count as decoded into no events",
        "decode_to_files.total(decoded) if typed else None",
        "decode_to_files.total(decoded)",
        "test_a_copy_without_decoding_has_the_same_bytes_and_no_events",
    ),
    Mutant(
        "typed-in-part",
        "a run is committed although some of its records were copied and not decoded",
        "copied.decoded.records != copied.records",
        "copied.decoded.records > copied.records",
        "test_records_that_were_copied_but_not_decoded_are_refused",
    ),
    Mutant(
        "nothing-reserved",
        "a batch run does not reserve its cut, so compaction merges commits on both sides of it",
        "            reserve(tables, release, source, choice.cut, by=by, at=at)\n",
        "            pass\n",
        "test_a_cut_stays_a_boundary_while_a_batch_folds_below",
    ),
    Mutant(
        "newest-state-unknown",
        "workers of the speed layer keep the initial state of their release and ignore newer publications",
        "                self._workers[state.release, source].know(state)\n",
        "                pass\n",
        "test_workers_get_the_state_that_a_batch_published",
    ),
    Mutant(
        "gap-before-untold",
        "a gap that begins before a range and reaches into it is not reported for the range",
        "            first < end.get(partition, 0) and to > start.get(partition, 0)",
        "            start.get(partition, 0) <= first < end.get(partition, 0)",
        "test_a_gap_touches_a_range_that_has_one_of_its_offsets",
    ),
    Mutant(
        "imported-is-caught-up",
        "an imported archive run counts as proof that this log was counted up to its time, so a restart evicts identities "
        "too early",
        "None if run.imported or to != run.end else",
        "None if to != run.end else",
        "test_only_runs_of_this_installation_know_when_the_log_was_caught_up",
    ),
    Mutant(
        "parts-are-caught-up",
        "each part of a divided stretch claims that the whole log is counted, which only the last part can",
        "caught_up=one.caught_up if end == one.end else None",
        "caught_up=one.caught_up",
        "test_only_the_last_part_of_a_divided_stretch_is_caught_up",
    ),
    Mutant(
        "restored-by-the-wrong-commit",
        "after a restart an identity belongs to the commit before its own, so it is evicted too early",
        'side="right")\n    return numbers',
        'side="left")\n    return numbers',
        "test_each_record_has_the_number_of_its_stretch",
    ),
    Mutant(
        "moving-layer-not-waited-for",
        "a recompute bridges a speed layer that is still advancing instead of waiting for it",
        "        still = still + _EVERY_S if now == reached else 0.0\n",
        "        still = still + _EVERY_S\n",
        "test_a_speed_layer_that_does_not_advance_is_bridged_after_three_seconds",
    ),
    Mutant(
        "two-topics-counted-whole",
        "a file with records of two topics counts with all its rows, although only one topic is requested",
        "self.topics[0] != self.topics[1]:",
        "self.topics[1] != self.topics[1]:",
        "test_all_rows_of_a_file_inside_are_of_one_partition_and_interval",
    ),
    Mutant(
        "another-views-rows",
        "a view without files is answered with the rows of the previously queried view",
        "            except Unreadable:\n                continue\n",
        "            except Unreadable:\n                pass\n",
        "test_a_view_without_files_never_gets_another_views_answers",
    ),
    Mutant(
        "finished-runs-decoded-again",
        "each archive run decodes all earlier runs again and reports their records as new",
        "if run.number not in finished]",
        "if run.number]",
        "test_an_archive_run_reports_new_records_and_names_a_gap",
    ),
    Mutant(
        "full-is-incremental",
        "`--mode full` adds to the published views instead of folding all events",
        'if request.mode == "full" or request.raw or not published.offsets:',
        "if request.raw or not published.offsets:",
        "test_a_request_is_one_step_for_each_source",
    ),
    Mutant(
        "another-releases-tail",
        "memory continues with the realtime states of a release that is no longer live",
        "    if (held.release, held.batch, held.cut) == (origin.release, batch, tail.cut):",
        "    if (held.batch, held.cut) == (batch, tail.cut):",
        "test_of_another_release_nothing_is_reused_that_is_not_the_same",
    ),
    Mutant(
        "layout-of-former-definitions",
        "memory adds states in the column order of definitions that are no longer live",
        " and held.layout.fits(layout):",
        ":",
        "test_of_another_release_nothing_is_reused_that_is_not_the_same",
    ),
    Mutant(
        "marked-for-a-later-window",
        "a single row of a hopping window has a reason because a later, overlapping window has realtime states",
        "        end = end if held.layout.sessions else start + 1",
        "        pass",
        "test_memory_marks_the_rows_that_the_reader_marks",
    ),
    Mutant(
        "session-final-too-early",
        "a single row labels a session final before its gap has passed, although an event may still join it",
        "final_until(view.source, self.watermark, bind(view).placement.timing.grace)",
        "final_until(view.source, self.watermark)",
        "test_rows_by_key_by_range_and_all_equal_the_kernels",
    ),
    Mutant(
        "bridge-forgets-the-epoch",
        "a table that has only a bridge left has epoch 0, so the next writer does not fence earlier ones",
        '        return Commit(start, to, _epoch(spans), "bridge", by=by, at=at)',
        '        return Commit(start, to, 0, "bridge", by=by, at=at)',
        "test_a_table_of_which_a_bridge_is_left_keeps_its_newest_epoch",
    ),
    Mutant(
        "sources-without-views-left-out",
        "a new release with a changed decoder gets no cut of the source if no view reads it",
        "if cut.offsets and (views or source not in base.cuts):",
        "if cut.offsets and views:",
        "test_a_source_without_views_is_built_as_well",
    ),
    Mutant(
        "plan-prints-a-whole-fold",
        "`plan` prints that a view is folded whole, of which `apply` folds only the new measures",
        "list(step.gained[name].measures) if name in step.gained else None",
        "None",
        "test_each_kind_of_change_is_done_as_it_was_printed",
    ),
    Mutant(
        "fastest-source-is-enough",
        "SQL over several sources of one topic waits only for the fastest of them",
        "lacking += max(distance(",
        "lacking += min(distance(",
        "test_nothing_is_lacking_if_each_source_has_come_as_far",
    ),
    Mutant(
        "nothing-becomes-no-number",
        "after three merges the moments of a group without values are NaN, and spoil later values",
        "    some = lengths > 0\n    groups",
        "    some = lengths >= 0\n    groups",
        "test_events_without_a_value_are_never_seen",
    ),
    Mutant(
        "deleted-unfenced",
        "maintain deletes listed files without a commit, so a run that was paused after it wrote them commits missing files",
        "        delta_tables.commit_actions(handle, [], lease=lease)\n",
        "",
        "test_no_commit_names_a_file_that_maintain_deletes",
    ),
    Mutant(
        "maintained-unclaimed",
        "maintain neither claims the tables whose files it deletes nor carries its token, so a run that it has displaced commits "
        "missing files",
        """        retries.claim(handle, tables.lease(address))


def _vacuum(tables: Tables, address: str, settings: Settings) -> Freed:
    handle = delta_tables.open_table(tables, address)
    return Freed() if handle is None else vacuum(handle, hours=settings.keep.file_hours, lease=tables.lease(address))
""",
        """        pass


def _vacuum(tables: Tables, address: str, settings: Settings) -> Freed:
    handle = delta_tables.open_table(tables, address)
    return Freed() if handle is None else vacuum(handle, hours=settings.keep.file_hours)
""",
        "test_no_commit_names_a_file_that_maintain_deletes",
    ),
    Mutant(
        "stale-token-accepted",
        "a holder of an earlier lease that was paused reopens a table and commits to it",
        "    if there > lease.token:",
        "    if there > lease.token + 1:",
        "test_a_stale_holder_commits_nothing_however_often_it_reopens",
    ),
    Mutant(
        "number-before-token",
        "a fenced archive run takes the commit of the next holder, which has its number and other rows, for its own",
        "    refuse_other_writers.refuse_unclaimed(handle, lease)\n    if _has(handle, transaction):",
        "    if _has(handle, transaction):",
        "test_a_fenced_run_takes_no_commit_of_another_for_its_own",
    ),
    Mutant(
        "taken-after-one-look",
        "a lease is taken from a holder that renews it, if it is old enough by the clock of the waiting process",
        "        if found is not None and found.id != seen:",
        "        if found is not None and not seen:",
        "test_a_holder_that_renews_keeps_it_for_longer_than_anybody_waits",
    ),
    Mutant(
        "hot-beside-its-commits",
        "at the hand-over a reader counts commits and the hot commits of the same range",
        "            return tuple(committed[:number])",
        "            return tuple(committed)",
        HOT,
    ),
    Mutant(
        "hot-forgets-what-commits-counted",
        "the hot tail forgets identities below the commits that took its place, so it counts their later duplicates",
        "            state = state.after(replace(segment.commit, at=at, caught_up=caught_up), segment.identities)",
        "            after = state.after(replace(segment.commit, at=at, caught_up=caught_up), segment.identities)\n"
        "            state = replace(after, dedup_window=state.dedup_window)",
        HOT,
    ),
    Mutant(
        "hot-part-below-the-boundary-forgotten",
        "a segment that commits divide is folded again without the identities of its lower part",
        "            lower, state = self._folded(low, position, state, views, at=at)",
        "            lower, after = self._folded(low, position, state, views, at=at)\n"
        "            state = replace(after, dedup_window=state.dedup_window)",
        HOT,
    ),
    Mutant(
        "hot-view-counted-beyond-a-lack",
        "answers of a view count hot commits that follow a hot commit without the view",
        "takewhile(lambda commit: fingerprint in commit.partials, self.hot)",
        "filter(lambda commit: fingerprint in commit.partials, self.hot)",
        "test_a_view_that_was_left_out_counts_none_behind_the_first_that_lacks_it",
    ),
    Mutant(
        "hot-divided-without-the-view-aside",
        "where commits divide a hot commit with a view that stands aside now, the upper part lacks it: its answers step back",
        "            views = {fingerprint for segment in straddling for fingerprint in segment.commit.partials}",
        "            views = self.views.keys() - self.left_out",
        HOT,
    ),
    Mutant(
        "hot-view-steps-back",
        "a new process of hot tails lacks a view that the former one had, and its answers step back to the commits",
        "            if source in ends and name in live and",
        "            if source not in ends and name in live and",
        "test_a_view_that_stands_aside_says_how_far_its_own_answers_count",
    ),
    Mutant(
        "hot-merge-forgets",
        "a merged segment of the hot tail keeps the identities of its newest part alone, so later duplicates of the others count",
        "                np.concatenate([segment.identities.keys for segment in segments]),\n"
        "                np.concatenate([segment.identities.times for segment in segments]),",
        "                segments[-1].identities.keys,\n                segments[-1].identities.times,",
        "test_a_merged_segment_keeps_the_identities_of_all_its_parts",
    ),
    Mutant(
        "hot-merge-beside-its-parts",
        "a reader counts merged hot commits beside the commit that took their place",
        "    known = continued(held.hot_commits, hot)",
        "    known = 0 if continued(held.hot_commits, hot) is not None else None",
        "test_merged_hot_commits_add_nothing_to_a_view_that_counts_them",
    ),
    Mutant(
        "hot-behind-commits",
        "hot commits that end below the commits on a partition take their place, so answers step back",
        "    if not end.at_or_below(hot[-1].end):",
        "    if not hot[0].start.at_or_below(end):",
        HOT,
    ),
    Mutant(
        "hot-of-another-release",
        "hot commits of a release that is not live continue the realtime table of the live one",
        "        return self._commits.get((release, source), ())",
        "        return next((found for (_, name), found in self._commits.items() if name == source), ())",
        "test_hot_commits_of_another_release_are_not_counted",
    ),
    Mutant(
        "hot-of-a-deleted-topic",
        "answers keep hot records of a topic that was created again",
        "                    self.losses += 1",
        "                    pass",
        "test_records_that_the_log_may_have_lost_leave_answers_at_once",
    ),
    Mutant(
        "hot-token-forgets",
        "a client that continues from a token keeps rows that only hot commits had counted",
        "(held.hot_commits[0].epoch, held.end) if held.hot else None",
        "None",
        "test_rows_that_only_hot_commits_counted_end_with_their_token",
    ),
    Mutant(
        "hot-states-stay",
        "a view in memory keeps the states of hot commits beside those of the hot commits that took their place",
        "        held, known = without_hot(held), 0",
        "        known = 0",
        "test_a_process_that_starts_again_divides_the_log_in_other_places",
    ),
    Mutant(
        "hot-records-above-the-commits-dropped",
        "a hot tail that starts drops records above the commits that it reads while it loads identities",
        "                self._wait(above)",
        "                pass",
        "test_answers_count_each_event_once_whatever_happens_in_between",
    ),
    Mutant(
        "hot-compares-nothing",
        "the hot tail leaves out the last of the commits that took its place when it compares both",
        "ends.index(covered.end) + 1]",
        "ends.index(covered.end)]",
        "test_a_comparison_counts_the_rows_that_differ_and_waits_five_seconds",
    ),
    Mutant(
        "hot-labels-begin-anew",
        "a hot tail that starts after a recompute does not label events late that are behind those of the batch",
        "commits), live.maxima.get(name, {})",
        "commits)",
        "test_labels_continue_those_of_commits_and_of_the_batch",
    ),
    Mutant(
        "place-of-the-gone",
        "a caller that is cancelled just as its turn comes keeps its place in the fair pool for ever",
        "                self._leave(by)  # the turn came at the same time",
        "                pass",
        "test_the_place_of_a_cancelled_caller_goes_to_the_next",
    ),
    Mutant(
        "true-is-one",
        "a look-up of the key True finds the row of 1",
        "type(value) is int and",
        "isinstance(value, int) and",
        "test_in_a_program",
    ),
    Mutant(
        "token-of-another-meaning",
        "a follower continues from a kept token although its view has another definition since a promote",
        "if known is not None and known.batch.fingerprint == held.batch.fingerprint:",
        "if known is not None:",
        "test_a_token_kept_before_a_promote_to_another_meaning_has_expired",
    ),
    Mutant(
        "token-kept-with-another",
        "a revoked token is accepted for as long as other tokens are used",
        "else (began, {known: principal})",
        "else (began, {**accepted, known: principal})",
        "test_an_accepted_secret_is_not_looked_for_again_for_a_moment",
    ),
    Mutant(
        "lease-counted-from-after-its-renewal",
        "a holder whose renewal took long takes itself for the holder after others may have taken the lease",
        "record, began + record.duration_s",
        "record, self.clock() + record.duration_s",
        "test_a_renewal_counts_from_before_it_is_put",
    ),
    Mutant(
        "amounts-rounded-half-up",
        "amounts with half a cent are rounded up instead of to the even cent, which adds up over many sales",
        "Context(precision, ROUND_HALF_EVEN,",
        'Context(precision, "ROUND_HALF_UP",',
        "test_a_double_is_its_shortest_decimal_rounded_in_every_format",
    ),
    Mutant(
        "rounding-is-content",
        "a copy of an event whose amounts have other digits, rounded to the same cents, counts as a conflict",
        "*METADATA_SCHEMA.names, ROUNDED})",
        "*METADATA_SCHEMA.names})",
        "test_a_copy_with_other_digits_that_round_alike_is_no_conflict",
    ),
    Mutant(
        "maps-as-they-were-written",
        "a copy of an event whose map has its entries in another order counts as a conflict",
        "return lambda value: sorted(value.items(), key=_key_of_pair)",
        "return lambda value: list(value.items())",
        "test_the_order_of_keys_decides_nothing",
    ),
    Mutant(
        "last-of-a-repeated-key",
        "of a key that a map of Avro has twice one value is chosen without a word",
        "if len(items) < len(entries):",
        "if len(items) > len(entries):",
        "test_a_key_that_avro_has_twice_rejects_the_record",
    ),
    Mutant(
        "items-are-copies-of-each-other",
        "of a record's items only the first counts, because the others have its identity",
        "return self.unnest is not None or IDEMPOTENCY_KEY in self.identity",
        "return IDEMPOTENCY_KEY in self.identity",
        "test_the_items_of_a_record_are_no_duplicates_and_a_copy_of_it_is",
    ),
    Mutant(
        "first-list-of-a-repeated-field",
        "of a record that has its list twice one is unnested without a word",
        """if any(value.count(f'"{key}"'.encode()) > 1 for key in keys)""",
        """if any(value.count(f'"{key}"'.encode()) > 2 for key in keys)""",
        "test_a_record_without_a_list_is_rejected_whole",
    ),
    Mutant(
        "lease-of-a-copied-lock-file",
        "a process with a copy of a state folder takes the lease of the process that runs with the original",
        "{status.st_dev}:{status.st_ino}",
        "{status.st_dev}",
        "test_a_copy_of_a_lock_file_is_not_the_lock_file",
    ),
    Mutant(
        "late-event-to-the-newest-definition",
        "an event that arrives after a definition has changed counts by the newest one, whatever its window",
        "        return _between(events, self.view.source.time_column, self.start, end)",
        "        return events if end is None else events.slice(0, 0)",
        "test_a_late_event_counts_by_the_definition_of_its_window",
    ),
    Mutant(
        "measure-before-its-time",
        "a measure that the definition of a window lacks is 0 there instead of NULL",
        "else pa.nulls(answer.num_rows, field.type) for field in schema]",
        "else pa.repeat(pa.scalar(0).cast(field.type), answer.num_rows) for field in schema]",
        "test_a_late_event_counts_by_the_definition_of_its_window",
    ),
    Mutant(
        "rejected-by-each-definition",
        "an event that two definitions reject, in windows of each, counts twice among the rejects",
        "if bind(view).placement.timing.overlap:",
        "if False:",
        "test_an_event_that_two_definitions_reject_is_rejected_once",
    ),
    Mutant(
        "record-before-the-start",
        "the last record before a declared start is folded",
        "early |= pc.and_(here, pc.less(offsets, first))",
        "early |= pc.and_(here, pc.less(pc.add(offsets, 1), first))",
        "test_at_every_cut_all_layers_count_from_the_start_on",
    ),
    Mutant(
        "window-that-left-is-answered",
        "an event that arrives for a window older than the view keeps brings a part of the window back",
        "return [Partial(staying(selection.filter(p.states), live.first_window), p.ranges, p.rejected) for p in partials]",
        "return [Partial(selection.filter(p.states), p.ranges, p.rejected) for p in partials]",
        "test_at_every_cut_windows_that_left_stay_away_in_all_layers",
    ),
    Mutant(
        "row-on-both-sides-of-the-seam",
        "an event at exactly the declared time counts as a row of the table, and again as a record of the log",
        "return pc.less(times, until) if of_table else",
        "return pc.less_equal(times, until) if of_table else",
        "test_an_event_of_table_and_topic_counts_once_at_every_cut",
    ),
    Mutant(
        "offset-on-both-sides-of-the-seam",
        "the row of a table at exactly the first offset of the log counts, and its record counts again",
        "pc.and_(placed, pc.greater_equal(offsets, pa.array(ends)))",
        "pc.and_(placed, pc.greater(offsets, pa.array(ends)))",
        "test_an_event_of_table_and_topic_counts_once_at_every_cut",
    ),
    Mutant(
        "question-answered-after-its-snapshot",
        "a question that began before a hot commit is answered with it where nobody had used the view",
        "return self._brought(pinned, view) if waits else None",
        "return self._brought(newest, view) if waits else None",
        "test_hot_commits_advance_the_views_in_use_alone_and_the_others_when_they_are_asked",
    ),
    Mutant(
        "changed-answer-not-modified",
        "a client that has an answer gets 304 after the answer has changed",
        'return sha256(f"{question}/{stand}/{dice}".encode()).hexdigest()[:24]',
        'return sha256(f"{question}/{dice}".encode()).hexdigest()[:24]',
        "test_a_client_with_the_answer_gets_304",
    ),
    Mutant(
        "hot-fold-before-its-predecessor-ended",
        "a hot fold begins where the first one began, so it counts duplicates of events in between",
        "segment, self.at_end = self._folded(records, end, self.at_end, self.views.keys() - self.left_out, at=at)",
        "segment, self.at_end = self._folded(records, end, self.at_base, self.views.keys() - self.left_out, at=at)",
        "test_segments_stay_few_while_no_commit_arrives_and_commits_may_then_end_anywhere",
    ),
    Mutant(
        "release-answered-by-the-live-one",
        "over HTTP a question to a release that is not live is answered by the live one",
        "lambda asked: Store(tables, secrets.randbits(64), (serving.memory_mb << 20) // _SHARE, asked=asked),",
        "lambda asked: Store(tables, secrets.randbits(64), (serving.memory_mb << 20) // _SHARE),",
        "test_a_release_answers_as_after_its_promotion",
    ),
    Mutant(
        "sink-token-before-rows",
        "a sink stores the token in a commit before that of the rows, so a process that is killed in between loses them",
        "            if rows.num_rows or gone.num_rows:\n                _merge(",
        "            if rows.num_rows or gone.num_rows:\n"
        "                handle.create_write_transaction(\n"
        '                    [], "append", handle.schema(), commit_properties=_properties(stamp, number)\n'
        "                )\n"
        "                handle.update_incremental()\n"
        "                _merge(",
        "test_only_what_changed_is_written_and_a_restart_writes_nothing",
    ),
    Mutant(
        "sink-rows-twice",
        "a sink adds a row that changed beside the row before",
        """IS NOT DISTINCT FROM s."{name}")' for name in gone.column_names)""",
        """IS NOT DISTINCT FROM s."{name}")' for name in rows.column_names)""",
        "test_rows_follow_any_order_of_what_happens",
    ),
    Mutant(
        "sink-gone-forgotten",
        "a sink keeps rows that are no longer the view's",
        "target.write(rows, gone, _stamp(change.token, wanted, change.provenance))",
        "target.write(rows, gone.slice(0, 0), _stamp(change.token, wanted, change.provenance))",
        "test_a_row_that_leaves_the_condition_is_deleted",
    ),
    Mutant(
        "sink-tombstone-forgotten",
        "a sink leaves rows in its topic that are no longer the view's",
        "None, headers) for row in gone.to_pylist()]",
        "None, headers) for row in ()]",
        "test_only_what_changed_is_sent_and_what_is_gone_is_a_tombstone",
    ),
    Mutant(
        "sink-token-before-records",
        "a sink commits the token in a transaction before that of the records, so records that fail after it are lost",
        "            self._producer.begin_transaction()\n            for number, record in placed:",
        "            self._producer.begin_transaction()\n"
        "            early = [TopicPartition(self._topic.name, n, end, metadata[n]) for n, end in self._ends.items()]\n"
        "            self._producer.send_offsets_to_transaction(early, self._group.consumer_group_metadata(), _DELIVERY_S)\n"
        "            self._producer.commit_transaction(_DELIVERY_S)\n"
        "            self._producer.begin_transaction()\n"
        "            for number, record in placed:",
        "test_a_transaction_that_fails_leaves_records_and_token",
    ),
    Mutant(
        "sink-snapshot-not-marked",
        "a sink sends a complete snapshot to a topic of changes without saying that earlier rows are void",
        "    if change.first:\n        yield TRUNCATE",
        "    if change.first and not change.rows.total:\n        yield TRUNCATE",
        "test_a_snapshot_voids_what_the_topic_has_of_another_meaning_or_without_a_token",
    ),
    Mutant(
        "bucket-object-of-another-version",
        "feed sends parts of two versions of an object that is replaced while it is copied, and records the hash of neither",
        "        if head is None or (head.size, head.tag) != (listed.size, listed.tag):\n            raise FileChanged",
        "        if head is None:\n            raise FileChanged",
        "test_an_object_that_is_replaced_since_it_was_listed_is_not_read",
    ),
    Mutant(
        "sink-hot-row-without-token",
        "a sink stores the token of commits with rows that count hot commits, so a restart does not know what the target has",
        "    hot = (held.hot_commits[0].epoch, held.end) if held.hot else None\n",
        "    hot = None\n",
        "test_a_hot_row_is_in_the_target_with_its_token",
    ),
    Mutant(
        "sink-older-rows-after-a-restart",
        "a sink that starts again takes back rows of hot commits that its target has, until commits reach them",
        "                await_answers(view, reached)\n",
        "",
        "test_a_sink_that_starts_again_waits_for_the_commit_of_the_rows_that_it_sent",
    ),
    Mutant(
        "sink-takes-hot-rows-back",
        "a sink takes rows back once the hot tail that counted them has ended",
        "found = None if watching.steps_back(pinned) else watching.look(",
        "found = watching.look(",
        "test_a_hot_tail_that_is_gone_takes_no_row_back",
    ),
    Mutant(
        "sink-without-lock",
        "two processes run one sink at once",
        """                acquire,
                what="`tandem sink`",""",
        """                lambda _: True,
                what="`tandem sink`",""",
        "test_a_sink_that_another_process_runs_is_refused_until_that_ends",
    ),
    Mutant(
        "sink-late-by-a-publication",
        "a target that lacks the rows of a publication is reported as the view",
        "    if (token.release, token.version) != (snapshot.publication.release, pair_numbers([live.version for live in of])):",
        "    if token.release != snapshot.publication.release:",
        "test_a_publication_that_the_target_lacks_is_a_lag_in_seconds",
    ),
    Mutant(
        "sink-trial-at-an-outside-broker",
        "a trial writes a sink's topic at the broker that others read",
        "case SinkTopic(topic) if not settings.kafka.bootstrap:",
        "case SinkTopic(topic):",
        "test_a_trial_writes_to_topics_of_its_own_at_the_embedded_broker_alone",
    ),
    Mutant(
        "sink-webhook-sent-before-stored",
        "a sink posts messages of a step before it has stored them, so a process that is killed in between sends another step",
        "        self.outbox.change(lambda stored: stored.with_step(stamp.text, outgoing))\n        self.deliver()",
        "        for message in outgoing[:1]:\n            self._send(message)\n"
        "        self.outbox.change(lambda stored: stored.with_step(stamp.text, outgoing))\n        self.deliver()",
        "test_a_webhook_sink_that_is_killed_anywhere_loses_nothing",
    ),
    Mutant(
        "sink-webhook-ids-repeat",
        "messages of a token that comes again have the ids of other messages, and a receiver drops them",
        "return replace(self, stamp=stamp, number=self.number + len(messages), left=tuple(messages))",
        "return replace(self, stamp=stamp, left=tuple(messages))",
        "test_messages_to_a_webhook_follow_any_order_of_what_happens",
    ),
    Mutant(
        "sink-postgres-stale-writer",
        "a sink's process writes over the rows and the token of another process",
        "if self._token_row(cursor, lock=True) != self._stored:",
        "if self._token_row(cursor, lock=True) is not None and self._stored is None:",
        "test_the_second_of_two_connections_conflicts_and_compares",
    ),
    Mutant(
        "sink-postgres-emptied-table",
        "a sink continues from the token of a table that was truncated, and leaves it empty",
        "return self._stored.token if self._stored.storage == storage else None",
        "return self._stored.token if storage else None",
        "test_a_postgres_table_follows_any_order_of_what_happens",
    ),
    Mutant(
        "sink-postgres-visible-half",
        "a reader sees an empty table while a sink replaces its rows",
        'self._run(cursor, "DELETE FROM {table}")',
        'self._run(cursor, "TRUNCATE {table}")',
        "test_readers_see_no_empty_table_while_rows_are_replaced",
    ),
    Mutant(
        "final-rows-sent-again",
        "a reader of final rows gets those again that were final before, whenever the watermark moves",
        "fresh = pc.and_not(_final(layout.view, table, now), _final(layout.view, table, was))",
        "fresh = _final(layout.view, table, now)",
        "test_rows_of_final_windows_come_once_and_late_ones_are_sent_or_counted",
    ),
    Mutant(
        "before-of-the-later-snapshot",
        "an envelope has the row as it is for the row as it was",
        "past.append(both.sides[0].filter(",
        "past.append(both.sides[1].filter(",
        "test_updates_fold_to_the_query_at_their_token",
    ),
    Mutant(
        "step-forgets-before",
        "while a step waits, the reader counts as having what it has not got, so its rows are never sent",
        "        self._newest = newest\n        self.pace.hear",
        "        self._newest, self._before = newest, past[1].answers.held\n        self.pace.hear",
        "test_delay_sends_that_long_after_the_first_change_and_loses_none",
    ),
    Mutant(
        "step-has-too-much",
        "a step that was due before a commit has the rows of that commit, too, so a replay is divided otherwise than the log",
        'self._step(past if due == "past" else newest, always=always, renew=renew)',
        "self._step(newest, always=always, renew=renew)",
        "test_every_sends_what_was_appended_before_a_multiple",
    ),
    Mutant(
        "delay-drops-a-row",
        "the commit with which a delay ends does not begin the next one, so its rows wait until another commit comes",
        "            if self._lacks(newest):\n",
        "            if update is None and self._lacks(newest):\n",
        "test_delay_sends_that_long_after_the_first_change_and_loses_none",
    ),
    Mutant(
        "idle-log-stands-still",
        "the log's time does not continue while no record comes, so the last rows before an idle log are never sent",
        "        return self._time + self.clock() - self._at\n",
        "        return self._time\n",
        "test_every_sends_what_was_appended_before_a_multiple",
    ),
    Mutant(
        "outputs-in-the-lane",
        "all rows of an output are compared in the thread that answers every question",
        'and self.pace.when.unit == "commit"\n        return simple and not self._first',
        'and self.pace.when.unit == "commit"\n        return simple',
        "test_the_first_rows_of_an_output_do_not_take_the_lane",
    ),
    Mutant(
        "event-without-before",
        "an event of the output changes has each row as new",
        "before = _without_labels(update, update.before, zone)",
        "before = _without_labels(update, update.before.slice(0, 0), zone)",
        "test_outputs_over_http_are_those_of_a_program",
    ),
    Mutant(
        "folder-sent-again",
        "a run that continues a file of a followed folder sends its first records again",
        "            if number < file.records:\n                continue\n",
        "            if number < 0:\n                continue\n",
        "test_a_run_ends_at_any_step_and_the_next_one_continues",
    ),
    Mutant(
        "folder-row-before-commit",
        "the journal has a file of a followed folder before its last records are committed",
        "        self._record(whole := commit(whole=True))\n",
        "        self._record(whole := replace(file, records=file.records))\n        whole = commit(whole=True)\n",
        "test_a_run_ends_at_any_step_and_the_next_one_continues",
    ),
    Mutant(
        "alert-correction-as-cleared",
        "an alert that a recompute made untrue is cleared, as if new events had ended it",
        'return restatement(step.before, step.now) or ("late" if row.label == "final" else "events")',
        'return "late" if row.label == "final" else "events"',
        "test_an_end_says_why_with_both_values_and_positions",
    ),
    Mutant(
        "alert-raised-twice",
        "a row that stays raised is raised again at each step",
        "            after[place] = replace(labelled, edge=edge)\n",
        "            after[place] = labelled\n",
        "test_on_time_events_clear_and_late_ones_correct",
    ),
    Mutant(
        "alert-acknowledged-before-sent",
        "an edge counts as acknowledged before it is sent, so a receiver that fails never gets it",
        "                ids = receiver.send(edges, active_edges(document))\n",
        "                early = frozenset(edge.id for edge in edges)\n"
        "                book.change(lambda stored, early=early: stored.acknowledge(receiver.name, early))\n"
        "                ids = receiver.send(edges, active_edges(document))\n",
        "test_what_is_not_acknowledged_is_sent_again_with_the_same_id",
    ),
    Mutant(
        "debezium-tombstone-counted",
        "the tombstone after a delete is a reject of its own",
        "        deletes = self.compacted or (isinstance(self.decoder, RecordFormat) and reads_tombstones(self.decoder))\n",
        "        deletes = self.compacted\n",
        "test_the_tombstone_after_a_delete_does_not_count",
    ),
    Mutant(
        "debezium-before-for-after",
        "an update leaves the row that it replaced",
        'self._of_row(envelope, "after", changes)',
        'self._of_row(envelope, "before" if op == "u" else "after", changes)',
        "test_an_update_is_what_the_row_is_after_it",
    ),
    Mutant(
        "debezium-decimal-without-scale",
        "a decimal has the scale of the first schema's default, none, instead of that of its own",
        """scale = int((schema.parameters or {}).get("scale", "0"))""",
        """scale = 0""",
        "test_a_decimal_has_the_scale_of_its_schema_and_all_of_its_digits",
    ),
    Mutant(
        "debezium-invented-columns",
        "a deleted row has the columns that Debezium made up, because the database logged the key alone",
        "if self._before or of_key is None:",
        "if True:",
        "test_a_deleted_row_is_its_key_unless_before_is_whole",
    ),
    Mutant(
        "debezium-avro-key-not-fetched",
        "the schemas of keys are never fetched, so every delete in Avro is a reject",
        "for batch in batches if of_keys for",
        "for batch in batches if not of_keys for",
        "test_the_schemas_of_values_and_keys_are_fetched_from_a_registry",
    ),
    Mutant(
        "debezium-avro-long-floats",
        "a number of four bytes has digits in Avro that it has neither in the database nor in JSON",
        "float(str(np.float32(content)))",
        "content",
        "test_any_row_is_the_same_in_both_notations",
    ),
    Mutant(
        "debezium-avro-logical-scale",
        "a decimal without Connect's names has no scale",
        '{"scale": str(avro_type.get("scale", 0))}',
        "None",
        "test_without_names_of_connect_the_logical_types_and_the_event_type_say_it",
    ),
    Mutant(
        "table-rebuild-of-half-a-snapshot",
        "`table rebuild` takes out rows that a snapshot has not brought yet",
        "return all(self.tables.values())",
        "return bool(self.tables)",
        "test_a_snapshot_that_is_not_complete_is_refused",
    ),
    Mutant(
        "table-rebuild-beside-a-change",
        "a delete of `table rebuild` comes after a newer row of its key, and wins",
        "check=lambda: len(_rows_without_changes(log, of, part, ends)) == len(part)",
        "check=lambda: True",
        "test_a_row_that_comes_back_before_its_delete_stays",
    ),
    Mutant(
        "table-rebuild-of-a-duplicate",
        "`table rebuild` appends deletes that no layer counts",
        "if lost := decoded.events.num_rows - events.num_rows:",
        "if lost := 0:",
        "test_a_delete_that_is_a_duplicate_is_refused",
    ),
    Mutant(
        "erased-price-in-micro-batches",
        "micro-batches that have looked up an erased record stay",
        "for of in (source, *looking):",
        "for of in (source,):",
        "test_nothing_has_an_erased_price_that_was_looked_up",
    ),
    Mutant(
        "erased-price-above-the-cut",
        "an erasure ends although micro-batches above the cut have looked up its records",
        "if number := sum(not span.end.at_or_below(cut) and looks_up_records_of(span, erasure) for span in spans):",
        "if number := 0:",
        "test_nothing_has_an_erased_price_that_was_looked_up",
    ),
    Mutant(
        "erased-price-unexplained",
        "no recompute can publish after an erasure, because answers had looked up its records",
        "if any(looks_up_records_of(span, erasure) for erasure in erasures):",
        "if not erasures and span.mark is None:",
        "test_nothing_has_an_erased_price_that_was_looked_up",
    ),
    Mutant(
        "estimates-at-another-time",
        "an estimate over the rows of a table at a time is that of its rows now",
        "selection=select(self.view, {}, ALWAYS, at=self.selection.at)",
        "selection=select(self.view, {}, ALWAYS)",
        "test_estimates_over_rows_are_those_of_the_time",
    ),
    Mutant(
        "debezium-key-guessed",
        "init guesses the key of a table although the records of its topic have it",
        "return with_key(ChangeSample(columns, (), common, guessed=True), tuple(key[-1]) if key else ())",
        "return with_key(ChangeSample(columns, (), common, guessed=True), ())",
        "test_a_topic_of_changes_has_the_key_of_its_records",
    ),
    Mutant(
        "debezium-schema-of-another-value",
        "a value is read by the schema of the value before it",
        "if self._prefix and value.startswith(self._prefix):",
        "if self._prefix and len(value) > len(self._prefix):",
        "test_every_value_is_read_alone_and_in_a_row_alike",
    ),
    Mutant(
        "states-of-a-key-outlive-their-version",
        "the states of a key that were kept of one batch version answer for the next",
        "return (self.address, part, tuple(selection.keys), values,",
        "return (self.address, tuple(selection.keys), values,",
        "test_a_hot_key_is_not_read_again",
    ),
    Mutant(
        "last-key-of-a-row-group",
        "the greatest key of a row group is not looked for there",
        "bool(self.low <= value <= self.high)",
        "bool(self.low <= value < self.high)",
        "test_what_is_left_out_has_no_selected_states",
    ),
    Mutant(
        "row-between-two-chunks",
        "the last row of a chunk is the first of the next, too",
        "        after = after.slice(1)\n",
        "        after = after.slice(0)\n",
        "test_chunks_are_the_whole_answer",
    ),
    Mutant(
        "page-beyond-its-chunk",
        "a page is cut at the end of a chunk, and the next one leaves out the rows that it lacks",
        "else min(there, found.given + limit)",
        "else found.given + limit",
        "test_pages_have_each_row_once",
    ),
    Mutant(
        "slot-between-two-pieces",
        "a state whose slot begins a piece of an answer is in the piece before, too",
        "(of >= slots.start) & (of < slots.stop)",
        "(of >= slots.start) & (of <= slots.stop)",
        "test_a_state_is_in_one_piece",
    ),
    Mutant(
        "changes-between-publications",
        "a reader of changes of a view in files is not sent what a publication changed",
        "        for slots in after.files.pieces():\n            yield",
        "        for slots in after.files.pieces()[1:]:\n            yield",
        "test_a_publication_changes_the_rows_of_a_view_in_files",
    ),
    Mutant(
        "last-slot-of-a-file",
        "a look-up does not open the file whose last slot the key is in",
        "range(int(name[1], 16), int(name[2], 16) + 1)",
        "range(int(name[1], 16), int(name[2], 16))",
        "test_a_name_says_which_slots_the_file_has",
    ),
)
