{{- /* Made by `python -m scripts.render_chart` from manifests/base: change it there. */}}
{{- define "grove-migrator.job" }}
# The run itself. Its exit codes say in what state the cluster is: docs/upgrade.md.
apiVersion: batch/v1
kind: Job
metadata:
  {{- with .annotations }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: grove-migrator
spec:
  # One pod at a time, and a new one only when the old one has ended. What really keeps two runs apart is the Lease.
  completions: 1
  parallelism: 1
  podReplacementPolicy: Failed
  backoffLimit: 3
  # For all attempts together; _helpers.tpl has the sum.
  activeDeadlineSeconds: {{ .deadline }}
  # No ttlSecondsAfterFinished: the Job and its pods stay as evidence, until the next upgrade or until you delete them.
  podFailurePolicy:
    rules:
      # Drained, preempted, evicted: not the run's fault, so it does not count, however the run ended. The next pod
      # finishes what was begun. This rule is first: the first one that fits decides.
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
        # Meshes: a sidecar would outlive the run, or delay its first request.
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
      # Asked to stop, the run finishes the sets that it has begun, and ends between two of them.
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
            - --timeout={{ .wait }}
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
          # A summary of the run, as JSON: kubectl describe pod shows it. If it could not be written, the last log lines.
          terminationMessagePath: /dev/termination-log
          terminationMessagePolicy: FallbackToLogsOnError
          {{- with include "grove-migrator.mounts" .root }}
          volumeMounts:
            {{- . | nindent 12 }}
          {{- end }}
{{- end }}
{{- define "grove-migrator.attempts" }}6000{{ end }}
