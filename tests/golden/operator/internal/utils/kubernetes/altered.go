//go:build !canonical && !nohash && altered

// Package kubernetes makes hashes of pod templates in another way than Grove, one for each tag.
package kubernetes

import (
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/dump"
	"k8s.io/apimachinery/pkg/util/rand"
)

// ComputeHash is one sum over the texts of all templates, changed before.
func ComputeHash(templates ...*corev1.PodTemplateSpec) string {
	sum := fnv.New64a()
	for _, template := range templates {
		_, _ = fmt.Fprintf(sum, "%v", dump.ForHash(changed(template)))
	}
	return rand.SafeEncodeString(finished(fmt.Sprint(sum.Sum64())))
}
