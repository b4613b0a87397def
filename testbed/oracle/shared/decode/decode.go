// Package decode reads pod templates and PodCliqueSets as the operator's client does: case-sensitively,
// not strictly, into zeroed structs, and then copied as a cache copies what it hands out.
package decode

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"grovemigrator/oracle/kubernetes"
)

// inOrder is the startup type under which the order of cliques is part of what the user wants.
const inOrder = "CliqueStartupTypeInOrder"

// PodCliqueSet is what reaches a hash of a PodCliqueSet.
type PodCliqueSet struct {
	Templates []kubernetes.Template
	InOrder   bool
}

// template is the input of a single pod template hash.
type template struct {
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	PodSpec           corev1.PodSpec    `json:"podSpec"`
	PriorityClassName string            `json:"priorityClassName"`
}

// podCliqueSet has the fields of a PodCliqueSet that reach a hash, and no others.
type podCliqueSet struct {
	Spec struct {
		Template struct {
			PriorityClassName string    `json:"priorityClassName"`
			StartupType       *string   `json:"cliqueStartupType"`
			Cliques           []*clique `json:"cliques"`
		} `json:"template"`
	} `json:"spec"`
}

type clique struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Spec        struct {
		PodSpec corev1.PodSpec `json:"podSpec"`
	} `json:"spec"`
}

// Template decodes {"labels", "annotations", "podSpec", "priorityClassName"}.
func Template(text []byte) (*corev1.PodTemplateSpec, error) {
	var in template
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(text, &in); err != nil {
		return nil, err
	}
	return hashed(in.Labels, in.Annotations, in.PodSpec, in.PriorityClassName), nil
}

// Set decodes a PodCliqueSet.
func Set(text []byte) (PodCliqueSet, error) {
	var in podCliqueSet
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(text, &in); err != nil {
		return PodCliqueSet{}, err
	}
	template := in.Spec.Template
	out := PodCliqueSet{InOrder: template.StartupType != nil && *template.StartupType == inOrder}
	for i, clique := range template.Cliques {
		if clique == nil {
			return PodCliqueSet{}, fmt.Errorf("spec.template.cliques[%d]: %w", i, errNullClique)
		}
		out.Templates = append(out.Templates, kubernetes.Template{
			Clique: clique.Name,
			Pod:    hashed(clique.Labels, clique.Annotations, clique.Spec.PodSpec, template.PriorityClassName),
		})
	}
	return out, nil
}

// errNullClique stands for the nil pointer that would end the operator; no CRD lets null in.
var errNullClique = errors.New("is null")

// hashed builds the template that is dumped: the set's priority class replaces the pod's, always.
func hashed(labels, annotations map[string]string, spec corev1.PodSpec, priorityClassName string) *corev1.PodTemplateSpec {
	out := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels), Annotations: maps.Clone(annotations)},
		Spec:       *spec.DeepCopy(),
	}
	out.Spec.PriorityClassName = priorityClassName
	return out
}
