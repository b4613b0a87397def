"""The kubeconfig files and the contexts in them, as kubectl finds them. Nothing here needs the client."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from migrator.errors import UsageError

DEFAULT: Final = "~/.kube/config"


def chosen(kubeconfig: str | None, context: str | None) -> str | None:
    """The context that the client takes; ``None`` where there is no kubeconfig, or none is chosen in it."""
    found = files(kubeconfig)
    return context or current(found)


def files(kubeconfig: str | None) -> list[str]:
    """The kubeconfig files that are read; kubectl passes over missing ones unless they were named by flag."""
    if kubeconfig is not None:
        if not _is_file(kubeconfig):
            raise UsageError(f"kubeconfig {kubeconfig} does not exist or is not a file")
        return [kubeconfig]
    named = os.environ.get("KUBECONFIG") or DEFAULT
    return [path for path in named.split(os.pathsep) if path and _is_file(path)]


def _is_file(path: str) -> bool:
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError):  # it may not be looked at, or there is no home directory
        return False


def names(paths: Sequence[str]) -> list[str]:
    """The names of all contexts."""
    return [str(entry["name"]) for entry in _entries(paths, "contexts")]


def user_of(paths: Sequence[str], context: str | None) -> tuple[str | None, Any]:
    """The user that a context names, and its entry: ``None`` if no file has it, so the client would be anonymous."""
    named = (entry["context"].get("user") for entry in _entries(paths, "contexts") if entry["name"] == context)
    name = next(named, None)
    return name, next((entry["user"] or {} for entry in _entries(paths, "users") if entry["name"] == name), None)


def impersonation(user: Any) -> str | None:  # noqa: ANN401 - any YAML
    """The field by which a user acts as another, which the client would ignore."""
    return next((field for field in ("as", "as-uid", "as-groups", "as-user-extra") if user.get(field)), None)


def _entries(paths: Sequence[str], key: str) -> list[Any]:
    return [entry for document in map(_read, paths) if document for entry in document.get(key) or ()]


def current(paths: Sequence[str]) -> str | None:
    """The context of the first file that names one, as with kubectl; the client would take the last file's.

    Kubernetes: ``client-go/tools/clientcmd/loader.go:ClientConfigLoadingRules.Load``.
    """
    named = (content.get("current-context") for content in map(_read, paths) if isinstance(content, dict))
    return next((str(name) for name in named if name), None)


def _read(path: str) -> Any:  # noqa: ANN401 - any YAML
    return yaml.safe_load(Path(path).expanduser().read_text(encoding="utf-8"))
