//go:build !canonical && !nohash

// Package podcliqueset asks for the hash of a set.
package podcliqueset

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"grovemigrator/fork/operator/api/core"
	"grovemigrator/fork/operator/internal/utils/kubernetes"
)

func computeGenerationHash(set *core.PodCliqueSet) string {
	templates := make([]*corev1.PodTemplateSpec, 0, len(set.Spec.Template.Cliques))
	for _, clique := range set.Spec.Template.Cliques {
		template := &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: clique.Labels, Annotations: clique.Annotations},
			Spec:       clique.Spec.PodSpec,
		}
		template.Spec.PriorityClassName = set.Spec.Template.PriorityClassName
		templates = append(templates, template)
	}
	return kubernetes.ComputeHash(templates...)
}
