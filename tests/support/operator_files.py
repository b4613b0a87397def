"""An operator without a program: what would be read of one, and a file that stands for a program."""

from __future__ import annotations

from typing import BinaryIO

from migrator.hashing.layouts import Layout, load
from migrator.operators.schemefile import OperatorScheme, Recognised

#: A file that the command line takes for a program.
PROGRAM = b"\x7fELF stands for an operator"


def described(layout: Layout | None = None, *, algorithm: str = "legacy", names: bool = False) -> OperatorScheme:
    """What is read of one program."""
    by = ("x/internal/utils/kubernetes.ComputeHash",)
    return OperatorScheme(
        recognised=Recognised(algorithm, names, names, by),
        layout=layout or load("1.35"),
        labels={"platform": "linux/arm64", "sha256": "aa", "go": "go1.26.8", "k8s.io/api": "v0.35.5"},
        warnings=("it was built on a Monday",),
    )


def read(file: BinaryIO) -> OperatorScheme:
    """Stands for binary.read."""
    assert file.read() == PROGRAM
    return described()


def changed_layout() -> Layout:
    """A layout that is not shipped: that of 1.35 with one field more in PodSpec."""
    layout = dict(load("1.35"))
    fields = layout["v1.PodSpec"]
    if isinstance(fields, str):
        raise TypeError("v1.PodSpec is a struct")
    layout["v1.PodSpec"] = (*fields, ("Newer", "newer", "*string"))
    return layout
