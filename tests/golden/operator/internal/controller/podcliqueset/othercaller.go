//go:build othercaller

package podcliqueset

import (
	corev1 "k8s.io/api/core/v1"

	"grovemigrator/fork/operator/internal/utils/kubernetes"
)

//go:noinline
func named(hash string) string {
	empty := corev1.PodTemplateSpec{}
	return hash[:1] + kubernetes.ComputeHash(&empty)
}
