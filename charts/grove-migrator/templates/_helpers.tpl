{{- define "grove-migrator.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion }}
{{- .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ $tag }}{{ end }}
{{- end }}

{{- define "grove-migrator.operatorNamespace" -}}
{{ .Values.operator.namespace | default .Release.Namespace }}
{{- end }}

{{- /* The operator that this upgrade installs, as repository:tag or repository@digest; empty where it is not seen. */}}
{{- define "grove-migrator.installed" -}}
{{- with .Values.operator.image }}
{{- if .tag }}{{ .repository }}{{ if hasPrefix "sha256:" .tag }}@{{ else }}:{{ end }}{{ .tag }}{{ end }}
{{- end }}
{{- end }}

{{- /* The target by name. Fails where this very upgrade installs another operator than the one that is named. */}}
{{- define "grove-migrator.target" -}}
{{- $tag := .Values.operator.image.tag | default "" }}
{{- $installed := include "grove-migrator.installed" . }}
{{- $binary := or .Values.targetBinary.image .Values.targetBinary.configMap }}
{{- if and (eq .Values.mode "hook") (not $tag) }}
{{- fail "mode hook must see which operator this upgrade installs: import operator.image from Grove's chart (import-values, docs/upgrade.md), or set operator.image.tag" }}
{{- end }}
{{- if and $tag .Values.targetImage (ne .Values.targetImage $installed) }}
{{- fail (printf "targetImage is %s, but this upgrade installs %s" .Values.targetImage $installed) }}
{{- end }}
{{- if and $tag .Values.targetBinary.image (ne .Values.targetBinary.image $installed) }}
{{- fail (printf "targetBinary.image is %s, but this upgrade installs %s" .Values.targetBinary.image $installed) }}
{{- end }}
{{- $said := or .Values.targetImage .Values.targetBinary.image }}
{{- if and $tag .Values.target (not $said) (ne (trimPrefix "v" .Values.target) (trimPrefix "v" $tag)) }}
{{- fail (printf "target is %s, but this upgrade installs %s. Name what it installs; if that image is %s under another tag, repeat it in targetImage" .Values.target $installed .Values.target) }}
{{- end }}
{{- if .Values.target }}{{ .Values.target }}
{{- else if and $tag (not $binary) }}{{ $tag }}
{{- else if not $binary }}
{{- fail "target is missing: the release that the next operator is, for instance v0.1.0-alpha.12-rc1" }}
{{- end }}
{{- end }}

{{- /* From where to where, as arguments. */}}
{{- define "grove-migrator.direction" -}}
{{- if and (eq .Values.mode "revert") (not .Values.from) }}
{{- fail "from is missing: mode revert needs the release that runs now" }}
{{- end }}
{{- with .Values.from }}
- --from={{ . }}
{{- end }}
{{- with include "grove-migrator.target" . }}
- --to={{ . }}
{{- end }}
{{- if .Values.targetBinary.image }}
- --to-binary=/target
{{- else if .Values.targetBinary.configMap }}
- --to-binary=/target/{{ .Values.targetBinary.key }}
{{- end }}
{{- end }}

{{- /* How to find the operator, as arguments; nothing where it is found by itself. */}}
{{- define "grove-migrator.operator" -}}
{{- with .Values.operator.namespace }}
- --operator-namespace={{ . }}
{{- end }}
{{- if ne .Values.operator.deployment "grove-operator" }}
- --operator-deployment={{ .Values.operator.deployment }}
{{- end }}
{{- with .Values.operator.lease }}
- --lease-name={{ . }}
{{- end }}
{{- with .Values.targetImage }}
- --target-image={{ . }}
{{- end }}
{{- end }}

{{- define "grove-migrator.volumes" -}}
{{- if .Values.targetBinary.image }}
- name: target
  image:
    reference: {{ .Values.targetBinary.image }}
    pullPolicy: IfNotPresent
{{- else if .Values.targetBinary.configMap }}
- name: target
  configMap:
    name: {{ .Values.targetBinary.configMap }}
{{- end }}
{{- end }}

{{- define "grove-migrator.mounts" -}}
{{- if or .Values.targetBinary.image .Values.targetBinary.configMap }}
- name: target
  mountPath: /target
  readOnly: true
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
{{- else }}{{ include "grove-migrator.attempts" . }}{{ end }}
{{- end }}

{{- /* How long a run waits for others: ten minutes, or what the deadline leaves beside ten for putting things back. */}}
{{- define "grove-migrator.wait" -}}
{{- $left := sub (include "grove-migrator.deadline" . | int) 600 }}
{{- if ge $left 600 }}10m{{ else }}{{ $left }}s{{ end }}
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

{{- define "grove-migrator.annotations.own" -}}
helm.sh/hook: post-install,post-upgrade
helm.sh/hook-delete-policy: before-hook-creation
helm.sh/hook-output-log-policy: hook-failed
{{- end }}
