"""The document of `tandem status` for a person."""

from collections.abc import Iterator, Mapping
from typing import Any

from tandem.cli.command.text_tables import aligned
from tandem.cli.run import part_processes
from tandem.ledger.hot.report import HotTailState
from tandem.ledger.log.history import history_lines
from tandem.serving.status.topics import topics_sentence
from tandem.views.counted import counted


def sentences(document: dict[str, Any]) -> str:
    """The document for a person."""
    sources = [
        {
            "source": name,
            "decoded": source["decoded"],
            "quarantined": sum(source["quarantined"].values()),
            **({"skipped": source["skipped"]} if any(each["skipped"] for each in document["sources"].values()) else {}),
            **({"others": source["others"]} if any(one["others"] for one in document["sources"].values()) else {}),
            **({"ahead": source["ahead"]} if any(one["ahead"] for one in document["sources"].values()) else {}),
            **(
                {"off calendar": source["off_calendar"]}
                if any(each["off_calendar"] for each in document["sources"].values())
                else {}
            ),
            **({"rounded": source["rounded"]} if any(each["rounded"] for each in document["sources"].values()) else {}),
            "duplicates": source["duplicates"],
            "archived": source["archived"],
            "log end": _total(source["log_end"]),
            "newest": None if source["age_s"] is None else f"{source['age_s']:.1f} s ago",
            "watermark": source["watermark"],
            **({"hot": _hot_cell(source["hot"])} if any(one["hot"] for one in document["sources"].values()) else {}),
        }
        for name, source in document["sources"].items()
    ]
    views = [
        {
            "view": name,
            "batch": view["batch_version"],
            "cut": _total(view["cut"]),
            "position": _total(view["positions"]),
            "lag": view["lag"],
            # If every measure is an estimate, rows have no label of their own.
            "rows": (view["exactness"]["rows"] or view["exactness"]["label"]).replace("_", " "),
        }
        for name, view in document["views"].items()
    ]
    sinks = [
        {
            "sink": sink["sink"],
            "view": sink["view"],
            "state": sink["state"],
            "position": _total(sink["position"]),
            "lag": sink["lag"],
            "behind": None if sink["lag_s"] is None else f"{sink['lag_s']:.0f} s",
            "rows": sink["rows"],
            "errors": sink["errors"],
        }
        for sink in document["sinks"]
    ]
    alerts = [
        {
            "alert": alert["alert"],
            "raised": alert["raised"],
            "waiting": alert["waiting"],
            "unsent": sum(alert["unsent"].values()),
            "newest": alert["at"],
        }
        for alert in document["alerts"]
    ]
    problems = [part["sentence"] for part in document["parts"] if part["red"]]
    problems += filter(None, (each["problem"] for each in (*document["sinks"], *document["alerts"])))
    problems += [source["rejected"]["warning"] for source in document["sources"].values() if source["rejected"]]
    problems += [
        f"{name}: {source[kind]}"
        for name, source in document["sources"].items()
        for kind in ("problem", "log_end_problem")
        if source[kind]
    ]
    problems += filter(None, (topics_sentence(name, source) for name, source in document["sources"].items()))
    problems += [
        f"{name}: answers do not advance until a recompute publishes the events that the speed layer skipped"
        for name, source in document["sources"].items()
        if source["behind_bridge"]
    ]
    problems += [
        f"{name}: duplicates of events counted before {source['identities_since']} are counted until the next recompute; raise "
        "speed.identities_mb or shorten the source's dedup_window"
        for name, source in document["sources"].items()
        if source["identities_since"]
    ]
    problems += [
        f"{name}: {source['until_loss']['warning']}"
        for name, source in document["sources"].items()
        if source["until_loss"] and source["until_loss"]["warning"]
    ]
    problems += [
        f"{name}: {transaction['warning']}"
        for name, source in document["sources"].items()
        for transaction in source["open_transactions"] or []
        if transaction["warning"]
    ]
    problems += [
        sentence
        for name, source in document["sources"].items()
        if source["hot"]
        for sentence in HotTailState(**source["hot"]).problems(name)
    ]
    problems += [gap["warning"] for source in document["sources"].values() for gap in source["gaps"] if gap["warning"]]
    problems += [
        f"{one['source']}: the speed layer has been waiting since {one['since']}: {one['why']}" for one in document["waiting"]
    ]
    number = document["publication"]
    problems += _late_lines(document)
    published = [f"publication {number} of release {document['release']}"] if number else []
    published += _history_sentences(document)
    for one in document["standing"]:
        behind = ", ".join(f"{counted(lag, 'offset')} of {name} behind" for name, lag in one["lag"].items())
        published.append(f"release {one['release']} {one['stage']}: {one['why'] or behind}")
    sections = (
        part_processes.sentences(document),
        aligned(sources),
        aligned(views),
        aligned(sinks),
        aligned(alerts),
        [*published, *problems],
    )
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _late_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """One line about late events, of which a load of history has many."""
    late = [
        f"{counted(source['late'], 'late event')} of {name}" for name, source in document["sources"].items() if source["late"]
    ]
    late += [
        f"{counted(view['after_final'], 'event')} of view {name} in windows that were final"
        for name, view in document["views"].items()
        if view["after_final"]
    ]
    if late:
        yield f"all of them count: {', '.join(late)}; a load of history has many"


def _hot_cell(hot: Mapping[str, Any] | None) -> str | None:
    """How far the hot tail is ahead of commits, or that it stands aside."""
    if hot is None:
        return None
    return "aside" if hot["aside"] else f"+{hot['ahead']}"


def _total(position: Mapping[str, Mapping[str, int]] | None) -> int | None:
    """Offsets below a position, over all partitions."""
    return None if position is None else sum(sum(partitions.values()) for partitions in position.values())


def _history_sentences(document: Mapping[str, Any]) -> Iterator[str]:
    """What the answers of each source and view stand on, beside topics from their first record on."""
    for name, source in document["sources"].items():
        if source["history"]:
            yield from history_lines(source["history"], name)
    for name, view in document["views"].items():
        if view["kept_from"]:
            yield f"view {name}: windows from {view['kept_from']} on; earlier ones have left the view"
