//go:build altered && called

package kubernetes

import corev1 "k8s.io/api/core/v1"

//go:noinline
func changed(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	out := template.DeepCopy()
	out.Spec.Tolerations = nil
	return out
}

func finished(text string) string { return text }
