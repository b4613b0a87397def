"""What CONTRIBUTING.md promises: each of five common changes takes three files that a person writes, tests included."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.commands import run

#: What `make generated` makes, the manifests aside, which need Helm.
_GENERATE: Final = (("scripts.cli_reference", "--write"), ("scripts.readme",))

_GUARD: Final = '''
NAMED: Final = base.Guard("GM-140", "odd-name", "The set has an odd annotation", warns=True)


def named(facts: base.SetFacts) -> Iterator[Finding]:
    """A set with the annotation odd."""
    if "odd" in facts.tree.pcs.annotations:
        yield NAMED.found(facts.tree.pcs.ref, None, "has an odd annotation")


'''
_SECTION: Final = """### GM-140
**The set has an odd annotation** (`odd-name`). Warns.

- **Do:** nothing.
- **See it:** `kubectl get podcliquesets -A`.

### GM-134
"""
_GUARD_TEST: Final = '''

def test_an_odd_name_warns() -> None:
    """The plan names the set."""
    world = World().grow()
    world.pcs["metadata"]["annotations"] = {"odd": "x"}
    assert warnings(world.findings()) == [("GM-140", "web", None)]
'''
_RELEASE: Final = (
    '{"release": "v0.1.0-alpha.12", "minor": "1.35", "algorithm": "legacy", "commit": "0123abcd", '
    '"source": "https://github.com/ai-dynamo/grove/blob/0123abcd/operator/go.mod#L21"}\n'
)
_PLACE: Final = '    HashField("PodCliqueScalingGroup", "/status/lastGenerationHash"),\n'


#: In each file that a person writes, texts and what takes their place, or what comes at its end.
CHANGES: Final[dict[str, dict[str, dict[str, str] | str]]] = {
    "a guard": {
        "migrator/planning/guards/fields.py": {
            "\n\ndef differing_fields(": f"\n{_GUARD}def differing_fields(",
            "(OF_TARGET, OF_SOURCE, UNHASHABLE)": "(OF_TARGET, OF_SOURCE, UNHASHABLE, NAMED)",
            "CHECKS: Final = (fields,)": "CHECKS: Final = (fields, named)",
        },
        "docs/guards.md": {"### GM-134\n": _SECTION},
        "tests/unit/planning/guards/test_fields.py": _GUARD_TEST,
    },
    "a release": {"migrator/releases/releases.json": _RELEASE},
    "a place of a stored hash": {
        "migrator/grove/places.py": {'    HashField("PodGangMap"': f'{_PLACE}    HashField("PodGangMap"'},
        "charts/grove-migrator/templates/policy.yaml": {
            "['currentGenerationHash', ": "['lastGenerationHash', 'currentGenerationHash', ",
        },
    },
    "what an exit code says": {
        "migrator/errors.py": {
            'STAY_AT_ZERO: Final = "Keep': 'STAY_AT_ZERO: Final = "Leave',
            'AGAIN, OR_REVERT = "Run the same': 'AGAIN, OR_REVERT = "Type the same',
        },
        "docs/upgrade.md": {
            "Keep the operator at zero": "Leave the operator at zero",
            "replicas. Run the same command again, or add": "replicas. Type the same command again, or add",
        },
    },
    "a key of the JSON": {
        "migrator/report/json.py": {
            "plan.remaining.gpus,\n": 'plan.remaining.gpus,\n        "spare": 0,\n',
        },
        "docs/how-it-works.md": {"`gpusRecreatedWithMigration`": "`gpusRecreatedWithMigration`, `spare`"},
        "tests/unit/report/test_json.py": {
            '("gpusRecreatedWithMigration", 40),\n': '("gpusRecreatedWithMigration", 40),\n        ("spare", 0),\n',
        },
    },
}


#: What a change concerns.
SUITES: Final = (
    *("tests/unit/releases/test_table.py", "tests/unit/grove/test_places.py", "tests/unit/planning"),
    *("tests/unit/report", "tests/unit/run/test_verify.py", "tests/unit/cli/test_cli.py"),
    *("tests/unit/cli/test_plan_input.py", "tests/unit/cli/test_status.py", "tests/faults/test_states.py"),
    "tests/e2e/test_docs.py",
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_common_change_takes_three_files(change: str) -> None:
    """That a person writes, tests included."""
    assert len(CHANGES[change]) <= 3


@pytest.fixture
def tree() -> Iterator[Path]:
    """A copy of the repository, whose path is short enough for tests that count columns."""
    with tempfile.TemporaryDirectory(prefix="") as directory:
        run("bash", "-c", f"git ls-files -z | xargs -0 cp --parents --target-directory={directory}")
        yield Path(directory)


def test_the_common_changes_need_no_more(tree: Path) -> None:
    """All made on a copy, and what is generated made anew: the suites that they concern pass."""
    for name, edits in (item for change in CHANGES.values() for item in change.items()):
        text = (tree / name).read_text(encoding="utf-8")
        for old, new in {} if isinstance(edits, str) else edits.items():
            assert text.count(old) == 1, f"{name} has {text.count(old)} times: {old}"
            text = text.replace(old, new)
        (tree / name).write_text(text + edits if isinstance(edits, str) else text, encoding="utf-8")
    for command in (*_GENERATE, ("pytest", "-q", "-p", "no:cacheprovider", *SUITES)):
        run(sys.executable, "-m", *command, cwd=tree, PYTHONPATH=str(tree))
