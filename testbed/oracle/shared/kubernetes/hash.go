// Package kubernetes computes the operator's pod template hashes.
//
// Written from a description of what Grove does, not from its source. It has the name of the package
// that holds Grove's own functions because go-spew prints that name for podTemplateSpecHashInput.
package kubernetes

import (
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/dump"
	"k8s.io/apimachinery/pkg/util/rand"
)

// Template is one clique's pod template with the clique's name.
type Template struct {
	Clique string
	Pod    *corev1.PodTemplateSpec
}

// podTemplateSpecHashInput is what the canonical algorithm dumps where the order of cliques matters.
// Both its name and its field names are part of the hashed text.
type podTemplateSpecHashInput struct {
	OrderKey        string
	PodTemplateSpec *corev1.PodTemplateSpec
}

// LegacyText is the text that the legacy algorithm hashes for one pod template.
func LegacyText(pod *corev1.PodTemplateSpec) string {
	return dump.ForHash(pod)
}

// CanonicalText is the text that the canonical algorithm hashes for one pod template.
func CanonicalText(pod *corev1.PodTemplateSpec) string {
	return dump.ForHash(canonical(pod))
}

// LegacyTexts are the texts behind the legacy generation hash: the templates as stored.
func LegacyTexts(templates []Template) []string {
	texts := make([]string, 0, len(templates))
	for _, template := range templates {
		texts = append(texts, LegacyText(template.Pod))
	}
	return texts
}

// CanonicalTexts are the texts behind the canonical generation hash: the templates by clique name, or,
// when cliques start in order, as stored and each with its clique's name.
func CanonicalTexts(templates []Template, inOrder bool) []string {
	texts := make([]string, 0, len(templates))
	if inOrder {
		for _, template := range templates {
			texts = append(texts, dump.ForHash(podTemplateSpecHashInput{
				OrderKey:        template.Clique,
				PodTemplateSpec: canonical(template.Pod),
			}))
		}
		return texts
	}
	sorted := slices.Clone(templates)
	by(sorted, func(t Template) string { return t.Clique })
	for _, template := range sorted {
		texts = append(texts, CanonicalText(template.Pod))
	}
	return texts
}

// Hash feeds texts to one hasher, nothing in between, and encodes the sum as Kubernetes names do.
func Hash(texts ...string) string {
	hasher := fnv.New64a()
	for _, text := range texts {
		fmt.Fprintf(hasher, "%v", text)
	}
	return rand.SafeEncodeString(fmt.Sprint(hasher.Sum64()))
}
