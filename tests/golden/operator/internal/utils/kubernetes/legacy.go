//go:build !canonical

// Package kubernetes makes hashes of pod templates.
package kubernetes

import (
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/dump"
	"k8s.io/apimachinery/pkg/util/rand"
)

// ComputeHash is one sum over the texts of all templates.
func ComputeHash(templates ...*corev1.PodTemplateSpec) string {
	sum := fnv.New64a()
	for _, template := range templates {
		_, _ = fmt.Fprintf(sum, "%v", dump.ForHash(template))
	}
	return rand.SafeEncodeString(fmt.Sprint(sum.Sum64()))
}
