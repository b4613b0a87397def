{{- define "grove-migrator.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion }}
{{- .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ $tag }}{{ end }}
{{- end }}

{{- /*
The name of an object outside of the release's namespace, from what it adds to "grove-migrator": an installation in
another namespace has its own, so that neither takes away what the other's run needs.
*/}}
{{- define "grove-migrator.unique" -}}
grove-migrator{{ last . }}.{{ (first .).Release.Namespace }}
{{- end }}

{{- define "grove-migrator.operatorNamespace" -}}
{{ .Values.operator.namespace | default .Release.Namespace }}
{{- end }}

{{- /* What no value may ask for, because it would run at the wrong time, twice, or never. */}}
{{- define "grove-migrator.check-values" }}
{{- $mode := .Values.mode }}
{{- $beside := has $mode (list "hook" "argocd") }}
{{- if not (or .Chart.IsRoot $beside) }}
{{- fail (printf "mode %s is for a release of its own: in a chart that installs the operator it would run too late. Set mode: hook (argocd with Argo CD)" $mode) }}
{{- end }}
{{- if and .Values.verify.enabled (not $beside) }}
{{- fail (printf "verify.enabled is for modes hook and argocd: in mode %s, run the chart again with mode=verify after the upgrade" $mode) }}
{{- end }}
{{- range .Values.extraArguments }}
{{- $flag := first (splitList "=" .) }}
{{- if not (hasPrefix "--" .) }}
{{- fail (printf "extraArguments: %s is not a flag: write --flag=value" .) }}
{{- end }}
{{- if has $flag (list "--to" "--from" "--to-binary" "--target-image" "--operator" "--stop-operator" "--dry-run" "--revert" "--help") }}
{{- fail (printf "extraArguments: %s is set by this chart, or is not for a Job: see values.yaml" $flag) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The operator that this upgrade installs, as repository:tag or repository@digest; empty where it is not seen. */}}
{{- define "grove-migrator.installed" -}}
{{- with .Values.operator.image }}
{{- if .tag }}{{ with .repository }}{{ . }}{{ if hasPrefix "sha256:" $.Values.operator.image.tag }}@{{ else }}:{{ end }}{{ end }}{{ .tag }}{{ end }}
{{- end }}
{{- end }}

{{- /*
The target by name; what a name means, the program decides. Fails where this very upgrade installs another operator than
the one that is named.
*/}}
{{- define "grove-migrator.target" -}}
{{- $tag := .Values.operator.image.tag | default "" }}
{{- $installed := include "grove-migrator.installed" . }}
{{- $binary := .Values.targetBinary.image }}
{{- if and (eq .Values.mode "hook") (not $tag) }}
{{- fail "mode hook must see which operator this upgrade installs: import operator.image from Grove's chart (import-values, docs/upgrade.md), or set operator.image.tag" }}
{{- end }}
{{- range $name, $image := dict "targetImage" .Values.targetImage "targetBinary.image" $binary }}
{{- if and $tag $image (ne $image $installed) }}
{{- fail (printf "%s is %s, but this upgrade installs %s: they must be equal, and operator.image has repository and tag" $name $image $installed) }}
{{- end }}
{{- end }}
{{- $bare := first (splitList "@" $tag) }}
{{- if and $tag .Values.target (not (or .Values.targetImage $binary)) (ne (trimPrefix "v" .Values.target) (trimPrefix "v" $bare)) }}
{{- fail (printf "target is %s, but this upgrade installs %s. Name what it installs; if that image is %s under another tag, repeat it in targetImage" .Values.target $installed .Values.target) }}
{{- end }}
{{- if or .Values.target $binary }}{{ .Values.target }}
{{- else }}{{ required "target is missing: the release that the next operator is, for instance v0.1.0-alpha.12-rc1" $bare }}
{{- end }}
{{- end }}

{{- /* From where to where, as arguments of a run. */}}
{{- define "grove-migrator.direction" -}}
{{- if and (eq .Values.mode "revert") (not .Values.from) }}
{{- fail "from is missing: mode revert needs the release that runs now" }}
{{- end }}
{{- with .Values.from }}
- --from={{ . }}
{{- end }}
{{- include "grove-migrator.to" . }}
{{- end }}

{{- /* To where, as arguments; verify takes no others. */}}
{{- define "grove-migrator.to" -}}
{{- with include "grove-migrator.target" . }}
- --to={{ . }}
{{- end }}
{{- if .Values.targetBinary.image }}
- --to-binary=/target/grove-operator
{{- end }}
{{- end }}

{{- /* The flags that extraArguments have, by name: a run takes each of its own flags once. */}}
{{- define "grove-migrator.given" -}}
{{- range .Values.extraArguments }}{{ first (splitList "=" .) }} {{ end }}
{{- end }}

{{- /* How to find the operator, as arguments; nothing where it is found by itself. */}}
{{- define "grove-migrator.operator" -}}
{{- if or .Values.operator.namespace (ne .Values.operator.deployment "grove-operator") }}
- --operator={{ default .Release.Namespace .Values.operator.namespace }}/{{ .Values.operator.deployment }}
{{- end }}
{{- with or .Values.targetImage .Values.targetBinary.image }}
- --target-image={{ . }}
{{- end }}
{{- end }}

{{- /*
When the Job must be over, in seconds after its start. Helm waits helmTimeout for each hook. Then the pod may take its
grace of 300 s to end, and Helm needs a while to see it: 60 s.
*/}}
{{- define "grove-migrator.deadline" -}}
{{- if eq .Values.mode "hook" }}
{{- $now := now }}
{{- $seconds := sub (dateModify (.Values.helmTimeout | default "0s") $now | unixEpoch) ($now | unixEpoch) }}
{{- if lt $seconds 1200 }}
{{- fail (printf "helmTimeout is %q: mode hook needs the --timeout that Helm is given, at least 20m" .Values.helmTimeout) }}
{{- end }}
{{- sub $seconds 360 }}
{{- else }}8400{{ end }}
{{- end }}

{{- /* How long a run waits for an update in flight: what helmTimeout leaves after 20 minutes, at most 10m. */}}
{{- define "grove-migrator.wait" -}}
{{- $left := sub (include "grove-migrator.deadline" . | int) 840 }}
{{- if ge $left 600 }}10m{{ else if gt $left 0 }}{{ $left }}s{{ end }}
{{- end }}

{{- /* The --timeout of a run: ten minutes, or what the deadline leaves after --wait and ten minutes to revert. */}}
{{- define "grove-migrator.timeout" -}}
{{- $left := sub (include "grove-migrator.deadline" . | int) 1200 }}
{{- if ge $left 600 }}10m{{ else }}{{ max $left 240 }}s{{ end }}
{{- end }}

{{- /*
For the wrapper chart, with its own context and the image of the operator that it really installs: what the hook
migrates to must be that.
*/}}
{{- define "grove-migrator.check" -}}
{{- $imported := (index (first .).Values "grove-migrator").operator.image.tag }}
{{- $installed := (last .).tag }}
{{- if ne $imported $installed }}
{{- fail (printf "this upgrade installs Grove %s, but grove-migrator was given %s: set grove-migrator.operator.image.tag too" $installed $imported) }}
{{- end }}
{{- end }}

{{- /*
The annotations of an object that is not the Job, and its weight: the policies apply before there are rights that they
limit. Outside of modes hook and argocd there are none: Helm and kubectl apply everything else before the Job.

Helm runs the hook of the revision that it rolls back to, so a rollback has the right direction. Not hook-succeeded or
hook-failed: at its timeout Helm deletes what has one of these while the Job lives on; after.yaml deletes it instead.
Argo CD deletes what has HookSucceeded at the end of a sync that succeeded, so when the new operator is installed
(gitops-engine, pkg/sync/sync_context.go: Sync); after a failed sync it stays.
*/}}
{{- define "grove-migrator.annotations" }}
{{- $mode := (first .).Values.mode }}
{{- if eq $mode "hook" }}
  annotations:
    helm.sh/hook: pre-upgrade,pre-rollback
    helm.sh/hook-weight: "{{ last . }}"
    helm.sh/hook-delete-policy: before-hook-creation
{{- else if eq $mode "argocd" }}
  annotations:
    argocd.argoproj.io/hook: PreSync
    argocd.argoproj.io/sync-wave: "{{ last . }}"
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation,HookSucceeded
{{- end }}
{{- end }}

{{- /*
The annotations of a Job, from when it runs ("pre" or "post"), its weight, and whether it goes when it has succeeded.
Otherwise it stays as evidence.
*/}}
{{- define "grove-migrator.jobAnnotations" }}
{{- $mode := (first .).Values.mode }}
{{- $when := index . 1 }}
{{- $weight := index . 2 }}
{{- $more := (first .).Values.annotations }}
{{- if or $more (ne $mode "manifest") }}
  annotations:
{{- end }}
{{- if eq $mode "argocd" }}
    argocd.argoproj.io/hook: {{ ternary "PreSync" "PostSync" (eq $when "pre") }}
    argocd.argoproj.io/sync-wave: "{{ $weight }}"
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation{{ if last . }},HookSucceeded{{ end }}
{{- else if ne $mode "manifest" }}
    helm.sh/hook: {{ ternary (printf "%s-upgrade,%s-rollback" $when $when) "post-install,post-upgrade" (eq $mode "hook") }}
    helm.sh/hook-weight: "{{ $weight }}"
    helm.sh/hook-delete-policy: before-hook-creation{{ if last . }},hook-succeeded{{ end }}
    {{- /* Not in mode hook: Flux's helm-controller crashes where it is to print a log (its issue #1562). */}}
    {{- if ne $mode "hook" }}
    helm.sh/hook-output-log-policy: hook-failed
    {{- end }}
{{- end }}
{{- with $more }}
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{- /* The Leases that the account may write: the operator's and its own. */}}
{{- define "grove-migrator.leases" -}}
grove-operator-leader-election, grove-migrator
{{- end }}

{{- /* What exemptFromWebhooks adds; without it a manifest has it commented out, for whoever needs it. */}}
{{- define "grove-migrator.optIn" }}
{{- $root := first . }}
{{- if $root.Values.exemptFromWebhooks }}{{ last . }}
{{- else if eq $root.Values.mode "manifest" }}
# For `--allow GM-202` (docs/guards.md): remove "# " from these lines.
{{- regexReplaceAll "(?m)^([^\n])" (last .) "# ${1}" }}
{{- end }}
{{- end }}

{{- /* One condition in two configurations. The policy grove-migrator-webhooks limits what the patch may change. */}}
{{- define "grove-migrator.webhookRule" }}
  - apiGroups: [admissionregistration.k8s.io]
    resources: [validatingwebhookconfigurations]
    resourceNames: [podclique-validating-webhook, authorizer-webhook]
    verbs: [get, patch]
{{- end }}

{{- define "grove-migrator.binding" }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ include "grove-migrator.unique" . }}
  {{- include "grove-migrator.annotations" (list (first .) -20) }}
  labels:
    app.kubernetes.io/name: grove-migrator
spec:
  policyName: {{ include "grove-migrator.unique" . }}
  validationActions: [Deny]
{{- end }}

{{- /* The account may leave itself out of a webhook, and nobody else; nothing else of the configuration may change. */}}
{{- define "grove-migrator.webhookPolicy" }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ include "grove-migrator.unique" (list . "-webhooks") }}
  {{- include "grove-migrator.annotations" (list . -20) }}
  labels:
    app.kubernetes.io/name: grove-migrator
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [admissionregistration.k8s.io]
        apiVersions: ["*"]
        operations: [UPDATE]
        resources: [validatingwebhookconfigurations]
  {{- include "grove-migrator.account" . }}
  variables:
    - name: old
      expression: dyn(oldObject)
    - name: new
      expression: dyn(object)
    - name: oldHooks
      expression: "'webhooks' in variables.old ? variables.old.webhooks : []"
    - name: newHooks
      expression: "'webhooks' in variables.new ? variables.new.webhooks : []"
  validations:
    - expression: >-
        variables.new.metadata.all(key, key in ['managedFields', 'generation']
        || key in variables.old.metadata && variables.new.metadata[key] == variables.old.metadata[key])
        && variables.old.metadata.all(key, key == 'managedFields' || key in variables.new.metadata)
      message: grove-migrator must not change metadata
      reason: Forbidden
    # A webhook that stays as it is may have the condition of an earlier account.
    - expression: >-
        variables.newHooks.map(hook, hook.name) == variables.oldHooks.map(hook, hook.name)
        && variables.newHooks.all(hook, variables.oldHooks.exists(old, old == hook || old.name == hook.name
        && hook.all(key, key == 'matchConditions' || key in old && old[key] == hook[key])
        && old.all(key, key == 'matchConditions' || key in hook)
        && ('matchConditions' in hook ? hook.matchConditions : []).filter(one, one.name != 'grove-migrator')
        == ('matchConditions' in old ? old.matchConditions : []).filter(one, one.name != 'grove-migrator')
        && ('matchConditions' in hook ? hook.matchConditions : []).all(one, one.name != 'grove-migrator'
        || one.expression == "request.userInfo.username != '" + request.userInfo.username + "'")))
      message: grove-migrator may only leave itself out of a webhook
      reason: Forbidden
{{- end }}

{{- /* A policy applies to requests of the account only. */}}
{{- define "grove-migrator.account" }}
  matchConditions:
    - name: account
      expression: request.userInfo.username.matches('^system:serviceaccount:[^:]+:grove-migrator$')
{{- end }}

{{- /* The head of an empty twin for after.yaml: kind, name, namespace and weight of the hook. */}}
{{- define "grove-migrator.twin" }}
{{- $kind := first . }}
---
{{- if eq $kind "ServiceAccount" }}
apiVersion: v1
{{- else }}
apiVersion: {{ ternary "admissionregistration" "rbac.authorization" (hasPrefix "Validating" $kind) }}.k8s.io/v1
{{- end }}
kind: {{ $kind }}
metadata:
  name: {{ index . 1 }}
  {{- with index . 2 }}
  namespace: {{ . | quote }}
  {{- end }}
  annotations:
    helm.sh/hook: post-upgrade,post-rollback
    helm.sh/hook-weight: "{{ last . }}"
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
  labels:
    app.kubernetes.io/name: grove-migrator
{{- end }}
