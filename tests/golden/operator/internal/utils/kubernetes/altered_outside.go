//go:build altered && outside

package kubernetes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func changed(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec { return template }

func finished(text string) string { return strings.Repeat(text, 2) }
