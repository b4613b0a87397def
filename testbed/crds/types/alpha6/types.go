// Package alpha6 is Grove's API as alpha.4 to alpha.6 have it.
//
// +groupName=grove.io
// +versionName=v1alpha1
package alpha6

import (
	"grovecrds/common"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Spec is the spec of a PodCliqueSet.
type Spec struct {
	common.Replicated `json:",inline"`
	Template          Template `json:"template"`
}

// Template is spec.template.
type Template struct {
	common.Template        `json:",inline"`
	common.Placed          `json:",inline"`
	Cliques                []common.PlacedClique       `json:"cliques"`
	PodCliqueScalingGroups []common.PlacedScalingGroup `json:"podCliqueScalingGroups,omitempty"`
}

// PodCliqueSet is what users write.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.hpaPodSelector
// +kubebuilder:resource:shortName={pcs}
type PodCliqueSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec                  `json:"spec"`
	Status            common.NamedSetStatus `json:"status,omitempty"`
}
