//go:build canonical

// Package kubernetes has the functions of the builds with canonical hashes; they only call each other.
package kubernetes

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/dump"
)

type Template = corev1.PodTemplateSpec

func ComputeHash(templates ...*Template) string {
	return computeHash(canonicalizePodTemplateSpecForHashing, templates) + ComputeHashLegacy(templates...) +
		ComputeHashWithOrderKeys(nil, templates...)
}

func ComputeHashLegacy(templates ...*Template) string {
	return computeHash(func(same *Template) *Template { return same }, templates)
}

func ComputeHashWithOrderKeys(keys []string, templates ...*Template) string {
	return dump.ForHash(keys) + computeHash(canonicalizePodTemplateSpecForHashing, templates)
}

//go:noinline
func computeHash(change func(*Template) *Template, templates []*Template) (text string) {
	for _, template := range templates {
		text += dump.ForHash(change(template))
	}
	return text
}

func canonicalizePodTemplateSpecForHashing(template *Template) *Template {
	canonicalizePodSpecForHashing(&template.Spec)
	return template
}

func canonicalizePodSpecForHashing(spec *corev1.PodSpec) {
	canonicalizeContainerForHashing()
	canonicalizeEphemeralContainerForHashing()
	spec.HostNetwork = true
}

func canonicalizeContainerForHashing() {
	canonicalizePortsForHashing()
	canonicalizeVolumeMountsForHashing()
	canonicalizeVolumeDevicesForHashing()
	canonicalizeResourceClaimsForHashing()
}

//go:noinline
func canonicalizeEphemeralContainerForHashing() {}

//go:noinline
func canonicalizePortsForHashing() {}

//go:noinline
func canonicalizeVolumeMountsForHashing() {}

//go:noinline
func canonicalizeVolumeDevicesForHashing() {}

//go:noinline
func canonicalizeResourceClaimsForHashing() {}
