"""Write the templates of charts/grove-migrator: ``python -m scripts.render_chart``; a test holds them current.

They are the text of manifests/base and manifests/planner, comments included, with values for namespaces, names and the
Job's settings, and with the annotations of the two kinds of hook. A replacement that does not fit is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from scripts.render_manifests import BASE, JOB, MANIFESTS, PARTS

ROOT: Final = Path(__file__).resolve().parent.parent
TEMPLATES: Final = ROOT / "charts" / "grove-migrator" / "templates"

#: When a hook applies each file of the base: the policies hold before there are rights that they limit.
WEIGHTS: Final = {"serviceaccount.yaml": -20, "policy.yaml": -20, "rbac.yaml": -10, JOB: 0}

#: By mode: the annotation that orders the hooks, those of every object, and those of the Job beside or instead.
#:
#: The chart's target belongs to its revision, so a rollback runs the hook of the revision that it goes back to, with
#: the right direction. For Helm never hook-succeeded or hook-failed: when its own time is up, Helm deletes what has one
#: of these while the Job lives on. What deletes them after the upgrade is after.yaml.
#:
#: Argo CD deletes what has HookSucceeded at the end of a sync that succeeded as a whole, so when the new operator is
#: installed (gitops-engine, pkg/sync/sync_context.go: Sync). After a failed one it stays.
_HOOKS: Final = {
    "hook": (
        "helm.sh/hook-weight",
        {"helm.sh/hook": "pre-upgrade,pre-rollback", "helm.sh/hook-delete-policy": "before-hook-creation"},
        {"helm.sh/hook-output-log-policy": "hook-failed"},
    ),
    "argocd": (
        "argocd.argoproj.io/sync-wave",
        {
            "argocd.argoproj.io/hook": "PreSync",
            "argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation,HookSucceeded",
        },
        {"argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation"},
    ),
}

#: What Helm does once the new operator is installed, or the old one again: rights go before the policies that limit
#: them.
_AFTER: Final = "after.yaml"
_AFTER_WEIGHTS: Final = {"serviceaccount.yaml": -10, "policy.yaml": 0, "rbac.yaml": -20}
_AFTER_HEADING: Final = """\
# What the hook of the chart does when the upgrade is over: it takes rights and policies away.
# Helm deletes a hook before it creates one of the same name, and these once more when they have been created. They
# permit and forbid nothing. If the upgrade fails, the Job may live on, and so do its rights and policies.
"""

_PLANNER: Final = MANIFESTS / "planner" / "planner.yaml"

_HOW_MADE: Final = "{{- /* Made by `python -m scripts.render_chart` from manifests/base: change it there. */}}\n"
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
    found = {}
    for part in PARTS[:-1]:
        body = _SEPARATOR.join(_annotated(_moved(text), part) for text in _documents(part))
        found[part] = _HOW_MADE + (_only_if(".Values.policies", body) if "AdmissionPolicy" in body else body)
    found[_AFTER] = _HOW_MADE + _only_if('eq .Values.mode "hook"', _AFTER_HEADING + _SEPARATOR.join(_after()))
    job = (BASE / JOB).read_text(encoding="utf-8")
    [deadline] = re.findall(r"activeDeadlineSeconds: (\d+)", job)
    found["_job.tpl"] = (
        f'{_HOW_MADE}{{{{- define "grove-migrator.job" }}}}\n{_parametrised(job)}{{{{- end }}}}\n'
        f'{{{{- define "grove-migrator.attempts" }}}}{deadline}{{{{ end }}}}\n'
    )
    found["_annotations.tpl"] = _HOW_MADE + _of_jobs()
    found[_PLANNER.name] = _HOW_MADE.replace("/base", "/planner") + _only_if(".Values.planner.subjects", _of_planners())
    return found


def _of_planners() -> str:
    """The rights of people who only plan, for whoever the values name."""
    _, first, rest = _PLANNER.read_text(encoding="utf-8").partition("apiVersion: ")  # the heading is for kubectl
    moved = _SEPARATOR.join(_moved(part) for part in (first + rest).split(_SEPARATOR))
    text, times = re.subn(
        r"(?m)^subjects:\n(?:  [^\n]*\n)+", "subjects:\n  {{- toYaml .Values.planner.subjects | nindent 2 }}\n", moved
    )
    if times != 2:  # noqa: PLR2004 - two bindings
        raise ValueError(f"{_PLANNER}: {times} lists of subjects, not two")
    return text


def _only_if(condition: str, body: str) -> str:
    return f"{{{{- if {condition} }}}}\n{body}{{{{- end }}}}\n"


def _documents(part: str) -> list[str]:
    return (BASE / part).read_text(encoding="utf-8").split(_SEPARATOR)


def _annotations(mode: str, part: str) -> dict[str, str]:
    """The annotations of what is in a file of the base, as a hook."""
    weight, every, job = _HOOKS[mode]
    return {weight: f'"{WEIGHTS[part]}"', **every, **(job if part == JOB else {})}


def _after() -> Iterator[str]:
    """An object for each of the base but the Job, with its kind and its name, and nothing in it."""
    for part, weight in _AFTER_WEIGHTS.items():
        for text in _documents(part):
            body = _moved(yaml.safe_dump(_emptied(yaml.safe_load(text), weight), sort_keys=False))
            yield _only_if(".Values.policies", body) if "AdmissionPolicy" in body else body


def _emptied(item: dict[str, Any], weight: int) -> dict[str, Any]:
    annotations = {
        "helm.sh/hook": "post-upgrade,post-rollback",
        "helm.sh/hook-weight": str(weight),
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }
    nothing = {"apiGroups": ["grove.io"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["nothing"]}
    contents: dict[str, dict[str, Any]] = {
        "ValidatingAdmissionPolicy": {
            "spec": {"matchConstraints": {"resourceRules": [nothing]}, "validations": [{"expression": "true"}]}
        },
        "ValidatingAdmissionPolicyBinding": {
            "spec": {"policyName": item["metadata"]["name"], "validationActions": ["Deny"]}
        },
        "ServiceAccount": {},
    }
    content = contents.get(
        item["kind"], {key: [] if key == "rules" else item[key] for key in ("rules", "roleRef") if key in item}
    )
    metadata = {"annotations": annotations, **item["metadata"]}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata, **content}


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


def _annotated(text: str, part: str) -> str:
    head, metadata, rest = text.partition("\nmetadata:\n")
    if not metadata or re.search(r"(?m)^  annotations:", rest):
        raise ValueError(f"manifests/base: annotations do not fit into {text[:60]!r}")
    return f"{head}{metadata}{''.join(_choice(part))}{rest}"


def _choice(part: str) -> Iterator[str]:
    for number, mode in enumerate(_HOOKS):
        yield f'  {{{{- {"else if" if number else "if"} eq .Values.mode "{mode}" }}}}\n  annotations:\n'
        yield from (f"    {name}: {value}\n" for name, value in _annotations(mode, part).items())
    yield "  {{- end }}\n"


def _of_jobs() -> str:
    """The annotations of the run as a named template for each mode."""
    return "".join(
        f'{{{{- define "grove-migrator.annotations.{mode}" -}}}}\n'
        + "".join(f"{name}: {value}\n" for name, value in _annotations(mode, JOB).items())
        + "{{- end }}\n"
        for mode in _HOOKS
    )


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


def main() -> None:
    """Write every template."""
    for name, text in templates().items():
        (TEMPLATES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
