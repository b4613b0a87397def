//go:build canonical && !onehash

package kubernetes

import corev1 "k8s.io/api/core/v1"

// ComputeHashLegacy hashes templates as they are.
func ComputeHashLegacy(templates ...*corev1.PodTemplateSpec) string {
	return computeHash(func(same *corev1.PodTemplateSpec) *corev1.PodTemplateSpec { return same }, nil, templates...)
}
