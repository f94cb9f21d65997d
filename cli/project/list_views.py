"""`tandem views`: the sources and views of a project, in a few lines each."""

from collections.abc import Iterator, Mapping
from typing import Any

from tandem.cli.command.call import Call, Output
from tandem.cli.command.drift import with_published_times
from tandem.views.composite.dated import starts
from tandem.views.composite.table import origin, origin_text
from tandem.views.exactness import of_measures, span
from tandem.views.source.source import Source
from tandem.views.start import start_document
from tandem.views.view import View


def run(call: Call) -> Output:
    """List the project's sources and views: keys, windows, measures, and how exact each measure is.

    It reads definitions, and the published times from which views have them (`apply --from`). `tandem check` shows all of a
    definition, `tandem explain` how a view is computed, and `SHOW TABLES` in `tandem sql` what is published.
    """
    project = with_published_times(call, call.definitions())
    document = {
        "sources": {name: _source(source) for name, source in project.sources.items()},
        "views": {name: _view(view) for name, view in project.every_view.items()},
    }
    return Output(document, "\n".join(_lines(document)))


def _source(source: Source) -> dict[str, Any]:
    return {
        "topics": list(source.topic_texts),
        "decoder": str(source.decoder),
        "identity": list(source.identity),
        "start": start_document(source.start),
        "keep": None if source.keep is None else span(source.keep),
    }


def _view(view: View) -> dict[str, Any]:
    reasons = of_measures(view)
    return {
        "source": view.source.name,
        "doc": view.doc,
        "keys": list(view.keys),
        "window": str(view.window),
        "keep": None if view.keep is None else span(view.keep),
        **({"from": begins} if (begins := starts(view)) else {}),
        **origin(view),
        "measures": {name: reasons[name][0].says if name in reasons else "exact" for name in view.measures},
    }


def _lines(document: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, source in document["sources"].items():
        identity = f"identity {', '.join(source['identity'])}" if source["identity"] else "every record counts"
        start = f", from {source['start']['declared']} on" if source["start"] else ""
        keep = f", records kept {source['keep']}" if source["keep"] else ""
        yield f"source {name}: topic {', '.join(source['topics'])}, {identity}{start}{keep}"
    for name, view in document["views"].items():
        yield ""
        keep = f", kept {view['keep']}" if view["keep"] else ""
        yield f"view {name}{origin_text(view)}: {view['window']}{keep}"
        if view["doc"]:
            yield f"  {view['doc']}"
        if "from" in view:
            *before, last = view["from"]
            times = f"; others began at {', '.join(before)}" if before else ""
            yield f"  from {last} on by this definition; windows before keep the definition of their time{times}"
        if view["keys"]:
            yield f"  by {', '.join(view['keys'])}"
        labels: dict[str, list[str]] = {}
        for measure, label in view["measures"].items():
            labels.setdefault(label, []).append(measure)
        yield from (f"  {', '.join(measures)}: {label}" for label, measures in labels.items())
