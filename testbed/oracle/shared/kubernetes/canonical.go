package kubernetes

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// canonical returns a copy in which every list whose order means nothing to Kubernetes is sorted by its
// key, elements with equal keys left in order. Lists whose order matters (init containers, environment,
// arguments) and lists that Kubernetes replaces as a whole (tolerations, readiness gates) stay as they are.
func canonical(pod *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	out := pod.DeepCopy()
	spec := &out.Spec
	by(spec.Containers, func(c corev1.Container) string { return c.Name })
	by(spec.EphemeralContainers, func(c corev1.EphemeralContainer) string { return c.Name })
	by(spec.Volumes, func(v corev1.Volume) string { return v.Name })
	by(spec.ImagePullSecrets, func(r corev1.LocalObjectReference) string { return r.Name })
	by(spec.HostAliases, func(a corev1.HostAlias) string { return a.IP })
	by(spec.ResourceClaims, func(c corev1.PodResourceClaim) string { return c.Name })
	by(spec.SchedulingGates, func(g corev1.PodSchedulingGate) string { return g.Name })
	slices.SortStableFunc(spec.TopologySpreadConstraints, func(a, b corev1.TopologySpreadConstraint) int {
		return cmp.Or(cmp.Compare(a.TopologyKey, b.TopologyKey), cmp.Compare(a.WhenUnsatisfiable, b.WhenUnsatisfiable))
	})
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		insideContainer(c.Ports, c.VolumeMounts, c.VolumeDevices, c.Resources.Claims)
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		insideContainer(c.Ports, c.VolumeMounts, c.VolumeDevices, c.Resources.Claims)
	}
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		insideContainer(c.Ports, c.VolumeMounts, c.VolumeDevices, c.Resources.Claims)
	}
	return out
}

func insideContainer(
	ports []corev1.ContainerPort,
	mounts []corev1.VolumeMount,
	devices []corev1.VolumeDevice,
	claims []corev1.ResourceClaim,
) {
	slices.SortStableFunc(ports, func(a, b corev1.ContainerPort) int {
		return cmp.Or(cmp.Compare(a.ContainerPort, b.ContainerPort), cmp.Compare(a.Protocol, b.Protocol))
	})
	by(mounts, func(m corev1.VolumeMount) string { return m.MountPath })
	by(devices, func(d corev1.VolumeDevice) string { return d.DevicePath })
	by(claims, func(c corev1.ResourceClaim) string { return c.Name })
}

// by sorts a list in place by one string key.
func by[E any](list []E, key func(E) string) {
	slices.SortStableFunc(list, func(a, b E) int { return cmp.Compare(key(a), key(b)) })
}
