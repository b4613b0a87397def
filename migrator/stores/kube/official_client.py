"""The official client without what is not used of it.

Its packages import each other, pydantic, websockets and more when any of them is named: half of our start, and 11 MiB.
So they are entered into Python's modules before anything asks for them. A submodule is imported when it is asked for,
and all that the package itself imports only when anything else is.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final

_PACKAGES: Final = ("kubernetes", "kubernetes.client", "kubernetes.utils")


def install() -> None:
    """Enter the packages; nothing happens where the client was imported before."""
    if "kubernetes" in sys.modules:
        return
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is None:
            return
        module = sys.modules[name] = module_from_spec(spec)
        module.__dict__["__getattr__"] = partial(_attribute, module, spec)
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, module)


def _attribute(module: ModuleType, spec: ModuleSpec, name: str) -> Any:  # noqa: ANN401 - any name of a module
    if name.startswith("__") and name != "__version__":
        raise AttributeError(name)
    direct = {"kubernetes.client.ApiClient": _api_client, "kubernetes.client.Configuration": _configuration}
    if f"{spec.name}.{name}" in direct:
        return direct[f"{spec.name}.{name}"]()
    if find_spec(f"{spec.name}.{name}") is not None:
        return importlib.import_module(f"{spec.name}.{name}")
    del module.__dict__["__getattr__"]
    if spec.loader is not None:
        spec.loader.exec_module(module)
    return getattr(module, name)


def _configuration() -> Any:  # noqa: ANN401 - a class of the client
    return importlib.import_module("kubernetes.client.configuration").Configuration


def _api_client() -> Any:  # noqa: ANN401 - stands for a class of the client
    """What the client itself renews a token of OpenID Connect with; imported when it does."""
    return lambda *given, **named: importlib.import_module("kubernetes.client.api_client").ApiClient(*given, **named)
