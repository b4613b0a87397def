{{- /* Made by `python -m scripts.render_chart` from manifests/base: change it there. */}}
{{- define "grove-migrator.annotations.hook" -}}
helm.sh/hook-weight: "0"
helm.sh/hook: pre-upgrade,pre-rollback
helm.sh/hook-delete-policy: before-hook-creation
helm.sh/hook-output-log-policy: hook-failed
{{- end }}
{{- define "grove-migrator.annotations.argocd" -}}
argocd.argoproj.io/sync-wave: "0"
argocd.argoproj.io/hook: PreSync
argocd.argoproj.io/hook-delete-policy: BeforeHookCreation
{{- end }}
