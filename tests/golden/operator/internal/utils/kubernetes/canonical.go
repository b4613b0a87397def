//go:build canonical

// Package kubernetes makes hashes of pod templates whose unordered lists are sorted.
package kubernetes

import (
	"fmt"
	"hash/fnv"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/dump"
	"k8s.io/apimachinery/pkg/util/rand"
)

// podTemplateSpecHashInput is printed with its name and those of its fields.
type podTemplateSpecHashInput struct {
	OrderKey        string
	PodTemplateSpec *corev1.PodTemplateSpec
}

// ComputeHash hashes sorted templates.
func ComputeHash(templates ...*corev1.PodTemplateSpec) string {
	return computeHash(canonicalizePodTemplateSpecForHashing, nil, templates...)
}

// ComputeHashWithOrderKeys hashes sorted templates with a name for each.
func ComputeHashWithOrderKeys(keys []string, templates ...*corev1.PodTemplateSpec) string {
	return computeHash(canonicalizePodTemplateSpecForHashing, keys, templates...)
}

func computeHash(
	prepare func(*corev1.PodTemplateSpec) *corev1.PodTemplateSpec, keys []string, templates ...*corev1.PodTemplateSpec,
) string {
	sum := fnv.New64a()
	for i, template := range templates {
		var text string
		if keys == nil {
			text = dump.ForHash(prepare(template))
		} else {
			text = dump.ForHash(podTemplateSpecHashInput{OrderKey: keys[i], PodTemplateSpec: prepare(template)})
		}
		_, _ = fmt.Fprintf(sum, "%v", text)
	}
	return rand.SafeEncodeString(fmt.Sprint(sum.Sum64()))
}

func canonicalizePodTemplateSpecForHashing(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	out := template.DeepCopy()
	canonicalizePodSpecForHashing(&out.Spec)
	return out
}

func canonicalizePodSpecForHashing(spec *corev1.PodSpec) {
	sort.SliceStable(spec.Containers, func(i, j int) bool { return spec.Containers[i].Name < spec.Containers[j].Name })
	ephemeral := spec.EphemeralContainers
	sort.SliceStable(ephemeral, func(i, j int) bool { return ephemeral[i].Name < ephemeral[j].Name })
	sort.SliceStable(spec.Volumes, func(i, j int) bool { return spec.Volumes[i].Name < spec.Volumes[j].Name })
	secrets := spec.ImagePullSecrets
	sort.SliceStable(secrets, func(i, j int) bool { return secrets[i].Name < secrets[j].Name })
	sort.SliceStable(spec.HostAliases, func(i, j int) bool { return spec.HostAliases[i].IP < spec.HostAliases[j].IP })
	claims := spec.ResourceClaims
	sort.SliceStable(claims, func(i, j int) bool { return claims[i].Name < claims[j].Name })
	gates := spec.SchedulingGates
	sort.SliceStable(gates, func(i, j int) bool { return gates[i].Name < gates[j].Name })
	spread := spec.TopologySpreadConstraints
	sort.SliceStable(spread, func(i, j int) bool {
		if spread[i].TopologyKey != spread[j].TopologyKey {
			return spread[i].TopologyKey < spread[j].TopologyKey
		}
		return spread[i].WhenUnsatisfiable < spread[j].WhenUnsatisfiable
	})
	for i := range spec.InitContainers {
		canonicalizeContainerForHashing(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		canonicalizeContainerForHashing(&spec.Containers[i])
	}
	for i := range ephemeral {
		canonicalizeEphemeralContainerForHashing(&ephemeral[i])
	}
}

func canonicalizeContainerForHashing(container *corev1.Container) {
	canonicalizePortsForHashing(container.Ports)
	canonicalizeVolumeMountsForHashing(container.VolumeMounts)
	canonicalizeVolumeDevicesForHashing(container.VolumeDevices)
	canonicalizeResourceClaimsForHashing(container.Resources.Claims)
}

func canonicalizeEphemeralContainerForHashing(container *corev1.EphemeralContainer) {
	canonicalizePortsForHashing(container.Ports)
	canonicalizeVolumeMountsForHashing(container.VolumeMounts)
	canonicalizeVolumeDevicesForHashing(container.VolumeDevices)
	canonicalizeResourceClaimsForHashing(container.Resources.Claims)
}

func canonicalizePortsForHashing(ports []corev1.ContainerPort) {
	sort.SliceStable(ports, func(i, j int) bool {
		if ports[i].ContainerPort != ports[j].ContainerPort {
			return ports[i].ContainerPort < ports[j].ContainerPort
		}
		return ports[i].Protocol < ports[j].Protocol
	})
}

func canonicalizeVolumeMountsForHashing(mounts []corev1.VolumeMount) {
	sort.SliceStable(mounts, func(i, j int) bool { return mounts[i].MountPath < mounts[j].MountPath })
}

func canonicalizeVolumeDevicesForHashing(devices []corev1.VolumeDevice) {
	sort.SliceStable(devices, func(i, j int) bool { return devices[i].DevicePath < devices[j].DevicePath })
}

func canonicalizeResourceClaimsForHashing(claims []corev1.ResourceClaim) {
	sort.SliceStable(claims, func(i, j int) bool { return claims[i].Name < claims[j].Name })
}
