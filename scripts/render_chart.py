"""Make the templates of charts/grove-migrator from manifests/base and manifests/planner.

Chart and manifests cannot differ.

python -m scripts.render_chart            write the templates
python -m scripts.render_chart --check    exit with 1 if one of them is not current

The text of the base is kept, comments included. Namespaces, names and the Job's settings become values; the
annotations of the two kinds of hook are read from the manifests that have them. Each replacement must fit exactly
as often as it is meant to, or nothing is written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from scripts.render_manifests import AFTER, BASE, HOW_MADE, MANIFESTS, PARTS

ROOT: Final = Path(__file__).resolve().parent.parent
TEMPLATES: Final = ROOT / "charts" / "grove-migrator" / "templates"

#: The chart's mode by the manifest whose annotations it has.
HOOKS: Final = {"hook": "job.yaml", "argocd": "argo-cd.yaml"}

#: The chart's target belongs to its revision, so a rollback runs the hook of the revision that it goes back to, with
#: the right direction. In a manifest the target is whatever somebody wrote.
_WHEN: Final = "pre-upgrade,pre-rollback"
_AFTER_WHEN: Final = "post-upgrade,post-rollback"

_JOB_FILE: Final = "job.yaml"
_PLANNER: Final = MANIFESTS / "planner" / "planner.yaml"

_HOW_MADE: Final = "{{- /* Made by `python -m scripts.render_chart` from manifests/base: change it there. */}}\n"
_Hooks = Mapping[str, Mapping[tuple[str, str], Mapping[str, str]]]
_SEPARATOR: Final = "---\n"
_NAMESPACE: Final = "grove-system"
_LEASE: Final = "grove-operator-leader-election"
_HERE: Final = "{{ .Release.Namespace }}"
_OPERATOR: Final = '{{ include "grove-migrator.operatorNamespace" . }}'

#: What lives in the namespace of the release; the other kinds live in the operator's.
_OURS: Final = {"ServiceAccount", "Job"}

#: Each piece of the Job's text, as a pattern that fits once, and what stands there in the chart.
_JOB: Final = (
    (r"  name: grove-migrator\n(?=  namespace)", "  name: {{ .name }}\n"),
    (
        r"(?:  # [^\n]*\n)*  activeDeadlineSeconds: \d+",
        "  # For all attempts together; _helpers.tpl has the sum.\n  activeDeadlineSeconds: {{ .deadline }}",
    ),
    (r"          values: \[2, 3, 5\]", '          values: [2, 3, 5{{ if eq .command "verify" }}, 7{{ end }}]'),
    (
        r"      restartPolicy: Never\n",
        """\
      restartPolicy: Never
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with include "grove-migrator.volumes" .root }}
      volumes:
        {{- . | nindent 8 }}
      {{- end }}
""",
    ),
    (
        r"          # Built from the Dockerfile[^\n]*\n          image: \S+\n          imagePullPolicy: \S+\n",
        """\
          image: {{ include "grove-migrator.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
""",
    ),
    (
        r"            - run\n(?:            # [^\n]*\n)*            - --to=\S+\n((?:            - --\S+\n)+)",
        r"""            {{- if eq .command "verify" }}
            - verify
            {{- include "grove-migrator.direction" .root | nindent 12 }}
            - --after-upgrade
            - --settle={{ .root.Values.verify.settle }}
            {{- else }}
            - run
            {{- include "grove-migrator.direction" .root | nindent 12 }}
\1            {{- range .root.Values.extraArguments }}
            - {{ . | quote }}
            {{- end }}
            {{- end }}
            {{- with include "grove-migrator.operator" .root }}
            {{- . | nindent 12 }}
            {{- end }}
""",
    ),
    (r"            - --timeout=10m\n", "            - --timeout={{ .wait }}\n"),
    (
        r"          resources:\n(?:            [^\n]*\n)+",
        "          resources:\n            {{- toYaml .root.Values.resources | nindent 12 }}\n",
    ),
    (
        r"\Z",
        """\
          {{- with include "grove-migrator.mounts" .root }}
          volumeMounts:
            {{- . | nindent 12 }}
          {{- end }}
""",
    ),
)


def templates() -> dict[str, str]:
    """The text of each template by its name. Raises ``ValueError`` where the base does not fit."""
    hooks = {mode: _annotations(name) for mode, name in HOOKS.items()}
    found = {}
    for part in PARTS:
        if part != _JOB_FILE:
            texts = (BASE / part).read_text(encoding="utf-8").split(_SEPARATOR)
            body = _SEPARATOR.join(_annotated(_moved(text), hooks) for text in texts)
            found[part] = _HOW_MADE + (_only_if(".Values.policies", body) if "AdmissionPolicy" in body else body)
    after = (MANIFESTS / AFTER).read_text(encoding="utf-8").replace(": post-upgrade\n", f": {_AFTER_WHEN}\n")
    comment, _, objects = after.partition(_SEPARATOR)
    body = _SEPARATOR.join(
        _only_if(".Values.policies", _moved(text)) if "AdmissionPolicy" in text else _moved(text)
        for text in objects.split(_SEPARATOR)
    )
    found["after.yaml"] = _HOW_MADE + _only_if('eq .Values.mode "hook"', comment.partition(HOW_MADE)[0] + body)
    job = (BASE / _JOB_FILE).read_text(encoding="utf-8")
    [deadline] = re.findall(r"activeDeadlineSeconds: (\d+)", job)
    found["_job.tpl"] = (
        f'{_HOW_MADE}{{{{- define "grove-migrator.job" }}}}\n{_parametrised(job)}{{{{- end }}}}\n'
        f'{{{{- define "grove-migrator.attempts" }}}}{deadline}{{{{ end }}}}\n'
    )
    found["_annotations.tpl"] = _HOW_MADE + _of_jobs(hooks)
    found[_PLANNER.name] = _HOW_MADE.replace("/base", "/planner") + _only_if(".Values.planner.subjects", _of_planners())
    return found


def _of_planners() -> str:
    """The rights of people who only plan, for whoever the values name."""
    _, first, rest = _PLANNER.read_text(encoding="utf-8").partition("apiVersion: ")  # the heading is for kubectl
    moved = _SEPARATOR.join(_moved(part) for part in (first + rest).split(_SEPARATOR))
    text, times = re.subn(
        r"(?m)^subjects:\n(?:  [^\n]*\n)+",
        "subjects:\n  {{- toYaml .Values.planner.subjects | nindent 2 }}\n",
        moved,
    )
    if times != 2:  # noqa: PLR2004 - two bindings
        raise ValueError(f"{_PLANNER}: {times} lists of subjects, not two")
    return text


def _only_if(condition: str, body: str) -> str:
    return f"{{{{- if {condition} }}}}\n{body}{{{{- end }}}}\n"


def _annotations(name: str) -> dict[tuple[str, str], dict[str, str]]:
    objects: list[dict[str, Any]] = list(yaml.safe_load_all((MANIFESTS / name).read_text(encoding="utf-8")))
    found = {(item["kind"], item["metadata"]["name"]): item["metadata"].get("annotations", {}) for item in objects}
    for of_one in found.values():
        if of_one.get("helm.sh/hook") == "pre-upgrade":
            of_one["helm.sh/hook"] = _WHEN
    return found


def _key(text: str) -> tuple[str, str]:
    item = yaml.safe_load(text)
    return item["kind"], item["metadata"]["name"]


def _moved(text: str) -> str:
    """Namespaces and names of the operator as values. What is known of the default place must not stay."""
    kind, name = _key(text)
    text = re.sub(rf"(?m)^  namespace: {_NAMESPACE}$", f"  namespace: {_HERE if kind in _OURS else _OPERATOR}", text)
    text = re.sub(
        rf"(?m)^(  - kind: ServiceAccount\n    name: \S+\n    namespace: ){_NAMESPACE}$", rf"\g<1>{_HERE}", text
    )
    text = re.sub(rf"(?m)^(    +namespace: ){_NAMESPACE}$", rf"\g<1>{_OPERATOR}", text)
    text = re.sub(
        r"(resources: \[deployments(?:/scale)?\]\n +resourceNames: )\[grove-operator\]",
        r"\1[{{ .Values.operator.deployment }}]",
        text,
    )
    text = text.replace(f"[{_LEASE}", f"[{_LEASE}{{{{ with .Values.operator.lease }}}}, {{{{ . }}}}{{{{ end }}}}")
    text = text.replace(f"'{_LEASE}'", f"'{_LEASE}'{{{{ with .Values.operator.lease }}}}, '{{{{ . }}}}'{{{{ end }}}}")
    if _NAMESPACE in text:
        raise ValueError(f"manifests/base: {kind} {name} names the default place where no value replaces it")
    return text


def _annotated(text: str, hooks: _Hooks) -> str:
    head, metadata, rest = text.partition("\nmetadata:\n")
    if not metadata or re.search(r"(?m)^  annotations:", rest):
        raise ValueError(f"manifests/base: annotations do not fit into {text[:60]!r}")
    return f"{head}{metadata}{''.join(_choice(_key_of_template(text), hooks))}{rest}"


def _key_of_template(text: str) -> tuple[str, str]:
    kind = re.search(r"(?m)^kind: (\S+)$", text)
    name = re.search(r"(?m)^metadata:\n  name: (\S+)$", text)
    if kind is None or name is None:
        raise ValueError(f"manifests/base: no kind or no name in {text[:60]!r}")
    return kind[1], name[1]


def _choice(key: tuple[str, str], hooks: _Hooks) -> Iterator[str]:
    for number, (mode, found) in enumerate(hooks.items()):
        yield f'  {{{{- {"else if" if number else "if"} eq .Values.mode "{mode}" }}}}\n  annotations:\n'
        yield from (f"    {name}: {_quoted(value)}\n" for name, value in found[key].items())
    yield "  {{- end }}\n"


def _of_jobs(hooks: _Hooks) -> str:
    """The annotations of the run as a named template for each mode."""
    return "".join(
        f'{{{{- define "grove-migrator.annotations.{mode}" -}}}}\n'
        + "".join(f"{name}: {_quoted(value)}\n" for name, value in found["Job", "grove-migrator"].items())
        + "{{- end }}\n"
        for mode, found in hooks.items()
    )


def _quoted(value: str) -> str:
    return f'"{value}"' if re.fullmatch(r"-?\d+", value) else value


def _parametrised(text: str) -> str:
    for pattern, replacement in _JOB:
        text, times = re.subn(pattern, replacement, text)
        if times != 1:
            raise ValueError(f"manifests/base/job.yaml: {pattern!r} fits {times} times")
    head, metadata, rest = text.partition("\nmetadata:\n")
    annotations = """\
  {{- with .annotations }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
"""
    return f"{head}{metadata}{annotations}{rest}".replace(
        f"  namespace: {_NAMESPACE}\n", "  namespace: {{ .root.Release.Namespace }}\n"
    )


def main(arguments: list[str]) -> int:
    """Write every template, or with ``--check`` print which are not current."""
    stale = []
    for name, text in templates().items():
        path = TEMPLATES / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"not current: {', '.join(stale)}; run python -m scripts.render_chart")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
