//go:build !canonical && !nohash

// Package utils asks for the hash of one clique.
package utils

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"grovemigrator/fork/operator/api/core"
	"grovemigrator/fork/operator/internal/utils/kubernetes"
)

// ComputePCLQPodTemplateHash is the pod-template hash of a clique.
func ComputePCLQPodTemplateHash(clique *core.Clique, priorityClassName string) string {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: clique.Labels, Annotations: clique.Annotations},
		Spec:       clique.Spec.PodSpec,
	}
	template.Spec.PriorityClassName = priorityClassName
	return kubernetes.ComputeHash(&template)
}
