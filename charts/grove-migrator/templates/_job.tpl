{{- /*
One Job. Values: root; command: run or verify; name; when: pre or post; weight of the hook; deadline and timeout in
seconds or as a duration.
*/}}
{{- define "grove-migrator.job" }}
# The exit code of the run tells the state of the cluster: docs/upgrade.md.
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  {{- include "grove-migrator.jobAnnotations" (list .root .when .weight) }}
  labels:
    app.kubernetes.io/name: grove-migrator
spec:
  # One pod at a time. A new one starts only when the old one has ended; the Lease is what keeps two runs apart.
  completions: 1
  parallelism: 1
  podReplacementPolicy: Failed
  backoffLimit: 3
  {{- if eq .root.Values.mode "hook" }}
  # Helm's timeout, less the grace period (5m) and a minute for Helm to see the end.
  {{- else }}
  # Each of 4 attempts may run for --timeout (10m), restore for 10m, and take the grace period (5m). A Job that is cut
  # off earlier leaves the operator at zero replicas. Give Helm more: --timeout 105m.
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
      # Wrong flags (2), refused (3), failed and put back (5): a person must look, another attempt would end alike.
      # A run that was asked to stop ends with 1 or 6, never with one of these.
      - action: FailJob
        onExitCodes:
          containerName: grove-migrator
          operator: In
          values: [2, 3, 5{{ if eq .command "verify" }}, 7{{ end }}]
      # API server away (1), race lost (4), interrupted while writing (6): a rerun finishes it. So it does after 137.
      - action: Count
        onExitCodes:
          containerName: grove-migrator
          operator: In
          values: [1, 4, 6]
  template:
    metadata:
      labels:
        app.kubernetes.io/name: grove-migrator
        # A sidecar of a service mesh would outlive the run, or delay its first request.
        sidecar.istio.io/inject: "false"
      annotations:
        sidecar.istio.io/inject: "false"
        linkerd.io/inject: disabled
        cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
        karpenter.sh/do-not-disrupt: "true"
    spec:
      serviceAccountName: grove-migrator
      automountServiceAccountToken: true
      enableServiceLinks: false
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
      # After SIGTERM the run finishes the sets that it has begun, and ends between two sets.
      terminationGracePeriodSeconds: 300
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: grove-migrator
          image: {{ include "grove-migrator.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- if eq .command "verify" }}
            - verify
            {{- include "grove-migrator.direction" .root | nindent 12 }}
            - --after-upgrade
            - --settle={{ .root.Values.verify.settle }}
            {{- else }}
            - run
            {{- include "grove-migrator.direction" .root | nindent 12 }}
            - --stop-operator
            - --timeout={{ .timeout }}
            - --max-downtime=10m
            {{- range .root.Values.extraArguments }}
            - {{ . | quote }}
            {{- end }}
            {{- end }}
            {{- with include "grove-migrator.operator" .root }}
            {{- . | nindent 12 }}
            {{- end }}
          resources:
            {{- toYaml .root.Values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          # A summary of the run, as JSON: kubectl describe pod shows it. Without it, the last log lines.
          terminationMessagePath: /dev/termination-log
          terminationMessagePolicy: FallbackToLogsOnError
          {{- with include "grove-migrator.mounts" .root }}
          volumeMounts:
            {{- . | nindent 12 }}
          {{- end }}
{{- end }}
