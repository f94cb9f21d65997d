"""The working tree beside the published release, for the commands that answer from the latter."""

from cli.call import Call
from ledger.publications import Publication
from serving.drift import Drift, drift
from views.errors import TandemError
from views.fingerprint import fingerprint


def working_tree_drift(call: Call, publication: Publication) -> Drift:
    """How the working tree's views differ from the published ones; that it cannot be read is no reason not to answer."""
    published = {name: view.fingerprint for name, view in publication.views.items()}
    try:
        working = {name: fingerprint(view) for name, view in call.definitions().views.items()}
    except TandemError as error:
        return Drift(problem=str(error))
    return drift(working, published)
