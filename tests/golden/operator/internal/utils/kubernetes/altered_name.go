//go:build !nohash && newname

package kubernetes

import (
	"os"

	corev1 "k8s.io/api/core/v1"
)

func init() {
	if len(os.Args) > 9 {
		println(TemplateHashV2(&corev1.PodTemplateSpec{}))
	}
}

// TemplateHashV2 is a hash of a new kind.
//
//go:noinline
func TemplateHashV2(template *corev1.PodTemplateSpec) string { return template.Name }
