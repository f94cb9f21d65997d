"""The revision of a folder's files in Git, if there is one."""

import subprocess
from pathlib import Path


def revision(folder: Path) -> str:
    """The commit of the folder's files, with `+` if some of them differ; empty without Git or outside a repository."""
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    return f"{commit}+" if commit and _git(folder, "status", "--porcelain", "--", ".") else commit


def _git(folder: Path, *arguments: str) -> str:
    # The repository's own configuration must not start programs.
    command = ["git", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            command, cwd=folder, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
