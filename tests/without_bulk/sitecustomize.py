"""On the path of a process, it is as if confluent-kafka were not installed there, nor in the processes that it starts."""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any


class Without(PathFinder):
    """The usual finder, but for one package."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """As if it were not there."""
        return None if fullname.partition(".")[0] == "confluent_kafka" else super().find_spec(fullname, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Without
