{{- define "labels" -}}
app.kubernetes.io/component: operator-deployment
app.kubernetes.io/name: grove-operator
app.kubernetes.io/part-of: grove
{{- end }}

{{- define "configuration" -}}
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
leaderElection:
  enabled: true
  leaseDuration: 15s
  resourceName: grove-operator-leader-election
  resourceNamespace: {{ .Release.Namespace }}
{{- end }}

{{- /* The name changes with the content, and with the version as it does in Grove's chart. */ -}}
{{- define "configMap" -}}
grove-operator-cm-{{ printf "%s%s" (include "configuration" .) .Values.image.tag | sha256sum | trunc 8 }}
{{- end }}
