"""What reading a large program costs."""

from __future__ import annotations

import subprocess
import sys

from testbed.controlplane.server import KUBERNETES

LIMIT = 150 << 10
READ = r"""
import re, sys
from migrator.operators import goinfo, layout
from migrator.operators.elf import Elf
from migrator.operators.algorithm import Functions
from migrator.operators.gotypes import GoTypes
with open(sys.argv[1], "rb") as file:
    elf = Elf(file)
    module = goinfo.module_data(elf, goinfo.build_info(elf).go_minor)
    types = layout.read(GoTypes(elf, module))
    names = list(Functions(elf, module).names("dump.ForHash"))
print(len(types) > 100 and "k8s.io/apimachinery/pkg/util/dump.ForHash" in names)
print(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])  # getrusage also counts the parent
"""


def test_a_program_larger_than_100_megabytes_is_read_in_150() -> None:
    """The layout and the function table of the test's API server, one of the largest Go programs, fit in 150 MB."""
    binary = KUBERNETES.binary()
    assert binary.stat().st_size > 100e6
    done = subprocess.run([sys.executable, "-c", READ, str(binary)], check=True, capture_output=True, text=True)
    found, memory = done.stdout.split()
    assert found == "True"
    assert int(memory) < LIMIT
