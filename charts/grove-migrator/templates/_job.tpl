{{- /*
One Job. Values: root; command: run or verify; name; when: pre or post; weight of the hook; deadline in seconds; wait and
timeout as durations.
*/}}
{{- define "grove-migrator.job" }}
# The exit code of the run tells the state of the cluster: docs/upgrade.md.
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace | quote }}
  {{- include "grove-migrator.jobAnnotations" (list .root .when .weight false) }}
  {{- include "grove-migrator.jobLabels" .root }}
spec:
  # One pod at a time. A new one starts only when the old one has ended; the Lease is what keeps two runs apart.
  completions: 1
  parallelism: 1
  podReplacementPolicy: Failed
  backoffLimit: 3
  {{- if eq .root.Values.mode "hook" }}
  # Helm's timeout, less the grace period (5m) and a minute for Helm to see the end.
  {{- else }}
  # Each of 4 attempts may take --wait (10m), --timeout (10m), 10m to revert, and the grace period (5m). A Job that is
  # cut off earlier leaves the operator at zero replicas. Give Helm more: --timeout 145m.
  {{- end }}
  activeDeadlineSeconds: {{ .deadline }}
  # No ttlSecondsAfterFinished: the Job and its pods stay as evidence, until the next upgrade or until you delete them.
  podFailurePolicy:
    rules:
      # Drained, preempted or evicted: this does not count as an attempt. The next pod finishes the run. The first rule
      # that matches decides.
      - action: Ignore
        onPodConditions:
          - type: DisruptionTarget
            status: "True"
      # Wrong flags (2), refused or reverted (3): another attempt would end alike, so a person must look.
      - action: FailJob
        onExitCodes:
          containerName: grove-migrator
          operator: In
          values: [2, 3{{ if eq .command "verify" }}, 7{{ end }}]
      # Nothing written yet (1), half-way or not known (6): the next attempt finishes the run, after 137 too.
      - action: Count
        onExitCodes:
          containerName: grove-migrator
          operator: In
          values: [1, 6]
  template:
    metadata:
      {{- include "grove-migrator.podMetadata" .root }}
    spec:
      serviceAccountName: grove-migrator
      automountServiceAccountToken: true
      enableServiceLinks: false
      restartPolicy: Never
      {{- include "grove-migrator.placement" .root }}
      # After SIGTERM the run finishes the sets that it has begun, and ends between two sets.
      terminationGracePeriodSeconds: 300
      {{- include "grove-migrator.podSecurity" . }}
      containers:
        - name: grove-migrator
          image: {{ include "grove-migrator.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- if eq .command "verify" }}
            - verify
            {{- include "grove-migrator.to" .root | trim | nindent 12 }}
            - --after-upgrade
            - --wait={{ .root.Values.verify.wait }}
            {{- else }}
            - run
            {{- include "grove-migrator.direction" .root | trim | nindent 12 }}
            - --stop-operator
            {{- $given := include "grove-migrator.given" .root | splitList " " }}
            {{- if and .wait (not (has "--wait" $given)) }}
            - --wait={{ .wait }}
            {{- end }}
            {{- if not (has "--timeout" $given) }}
            - --timeout={{ .timeout }}
            {{- end }}
            {{- if .root.Values.exemptFromWebhooks }}
            - --allow=GM-202
            {{- else if eq .root.Values.mode "manifest" }}
            # - --allow=GM-202
            {{- end }}
            {{- range .root.Values.extraArguments }}
            - {{ . | quote }}
            {{- end }}
            {{- end }}
            {{- with include "grove-migrator.operator" .root }}
            {{- . | nindent 12 }}
            {{- end }}
          resources:
            {{- toYaml .root.Values.resources | nindent 12 }}
          {{- include "grove-migrator.containerSecurity" . }}
          # After a failure kubectl describe pod shows the last lines of the log.
          terminationMessagePolicy: FallbackToLogsOnError
          {{- include "grove-migrator.mounts" .root }}
{{- end }}

{{- /*
Before anything is applied: a Job that needs no permission proves that the images can be pulled. A pod whose image cannot
be pulled stays Pending, so the run's own Job would end at its deadline, in an hour or more.
*/}}
{{- define "grove-migrator.imageJob" }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: grove-migrator-image
  namespace: {{ .root.Release.Namespace | quote }}
  {{- include "grove-migrator.jobAnnotations" (list .root "pre" (sub .weight 10) true) }}
  labels:
    app.kubernetes.io/name: grove-migrator
automountServiceAccountToken: false
---
apiVersion: batch/v1
kind: Job
metadata:
  name: grove-migrator-image
  namespace: {{ .root.Release.Namespace | quote }}
  {{- include "grove-migrator.jobAnnotations" (list .root "pre" .weight true) }}
  {{- include "grove-migrator.jobLabels" .root }}
spec:
  backoffLimit: 2
  activeDeadlineSeconds: 300
  template:
    metadata:
      {{- include "grove-migrator.podMetadata" .root }}
    spec:
      serviceAccountName: grove-migrator-image
      automountServiceAccountToken: false
      enableServiceLinks: false
      restartPolicy: Never
      {{- include "grove-migrator.placement" .root }}
      {{- include "grove-migrator.podSecurity" . }}
      containers:
        - name: grove-migrator
          image: {{ include "grove-migrator.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [--version]
          # Those of the run, so that a quota without room for it is found here.
          resources:
            {{- toYaml .root.Values.resources | nindent 12 }}
          {{- include "grove-migrator.containerSecurity" . }}
          {{- include "grove-migrator.mounts" .root }}
{{- end }}

{{- define "grove-migrator.jobLabels" }}
  labels:
    app.kubernetes.io/name: grove-migrator
    {{- with .Values.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "grove-migrator.podMetadata" }}
{{- $ours := "^(app[.]kubernetes[.]io/name|(sidecar[.]istio|linkerd)[.]io/inject|cluster-autoscaler[.]kubernetes[.]io/safe-to-evict|karpenter[.]sh/do-not-disrupt|helm[.]sh/.*|argocd[.]argoproj[.]io/.*)$" }}
{{- range $value := list "labels" "annotations" }}
{{- range $key, $_ := index $.Values $value }}
{{- if regexMatch $ours $key }}{{ fail (printf "%s: %s is set by this chart: leave it out" $value $key) }}{{ end }}
{{- end }}
{{- end }}
      labels:
        app.kubernetes.io/name: grove-migrator
        # A sidecar of a service mesh would outlive the run, or delay its first request.
        sidecar.istio.io/inject: "false"
        {{- with .Values.labels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        sidecar.istio.io/inject: "false"
        linkerd.io/inject: disabled
        cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
        karpenter.sh/do-not-disrupt: "true"
        {{- with .Values.annotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}

{{- /* Where a pod runs, and what it mounts. */}}
{{- define "grove-migrator.placement" }}
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- if .Values.targetBinary.image }}
      volumes:
        - name: target
          image:
            reference: {{ .Values.targetBinary.image | quote }}
            pullPolicy: IfNotPresent
      {{- end }}
{{- end }}

{{- define "grove-migrator.mounts" }}
          {{- if .Values.targetBinary.image }}
          volumeMounts:
            - name: target
              mountPath: /target
              readOnly: true
          {{- end }}
{{- end }}

{{- /* The user is the image's: OpenShift's restricted-v2 refuses one that a pod names, and gives it another. */}}
{{- define "grove-migrator.podSecurity" }}
      securityContext:
        runAsNonRoot: true
        seccompProfile:
          type: RuntimeDefault
{{- end }}

{{- define "grove-migrator.containerSecurity" }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
{{- end }}
