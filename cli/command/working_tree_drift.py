"""The working tree beside the published release, for the commands that answer from the latter."""

from cli.command.call import Call
from serving.drift import Drift, drift, since_published
from serving.read.reader import Reader
from views.errors import TandemError


def working_tree_drift(call: Call, reader: Reader) -> Drift:
    """How the working tree differs from what is published, which is also said on stderr.

    That the working tree cannot be read is not a reason not to answer.
    """
    publication = reader.snapshot().publication
    try:
        found = drift(since_published(reader.tables, publication, call.definitions()))
    except TandemError as error:
        found = Drift(problem=str(error))
    for sentence in found.sentences():
        call.say(sentence)
    return found
