//go:build canonical

// Package utils asks for hashes, and for the older ones that are accepted too.
package utils

import (
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"grovemigrator/fork/operator/api/core"
	"grovemigrator/fork/operator/internal/utils/kubernetes"
)

// ComputePCLQPodTemplateHash is the pod-template hash of a clique.
//
//go:noinline
func ComputePCLQPodTemplateHash(clique *core.Clique, priorityClassName string) string {
	return kubernetes.ComputeHash(newPCLQPodTemplateSpecForHash(clique, priorityClassName))
}

// ComputePCSGenerationHash is the generation hash of a set.
func ComputePCSGenerationHash(set *core.PodCliqueSet) string {
	cliques := append([]*core.Clique(nil), set.Spec.Template.Cliques...)
	if isInOrderStartup(set) {
		keys := make([]string, 0, len(cliques))
		for _, clique := range cliques {
			keys = append(keys, clique.Name)
		}
		return kubernetes.ComputeHashWithOrderKeys(keys, podTemplateSpecsForPCLQTemplates(set, cliques)...)
	}
	sort.SliceStable(cliques, func(i, j int) bool { return cliques[i].Name < cliques[j].Name })
	return kubernetes.ComputeHash(podTemplateSpecsForPCLQTemplates(set, cliques)...)
}

func podTemplateSpecsForPCLQTemplates(set *core.PodCliqueSet, cliques []*core.Clique) []*corev1.PodTemplateSpec {
	templates := make([]*corev1.PodTemplateSpec, 0, len(cliques))
	for _, clique := range cliques {
		templates = append(templates, newPCLQPodTemplateSpecForHash(clique, set.Spec.Template.PriorityClassName))
	}
	return templates
}

func newPCLQPodTemplateSpecForHash(clique *core.Clique, priorityClassName string) *corev1.PodTemplateSpec {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: clique.Labels, Annotations: clique.Annotations},
		Spec:       clique.Spec.PodSpec,
	}
	template.Spec.PriorityClassName = priorityClassName
	return template
}

func isInOrderStartup(set *core.PodCliqueSet) bool {
	return set.Spec.Template.StartupType != nil && *set.Spec.Template.StartupType == "CliqueStartupTypeInOrder"
}
