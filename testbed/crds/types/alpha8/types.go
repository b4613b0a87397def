// Package alpha8 is Grove's API as alpha.8 has it: each update's progress under both names.
//
// +groupName=grove.io
// +versionName=v1alpha1
package alpha8

import (
	"grovecrds/claims"
	"grovecrds/common"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Spec is the spec of a PodCliqueSet.
type Spec struct {
	common.UpdatedSpec `json:",inline"`
	Template           Template `json:"template"`
}

// Template is spec.template.
type Template struct {
	common.Template `json:",inline"`
	common.Placed   `json:",inline"`
	// +listType=map
	// +listMapKey=name
	Cliques                []Clique                `json:"cliques"`
	ResourceClaimTemplates []claims.Template       `json:"resourceClaimTemplates,omitempty"`
	ResourceSharing        []common.SetSharedClaim `json:"resourceSharing,omitempty"`
	PodCliqueScalingGroups []ScalingGroup          `json:"podCliqueScalingGroups,omitempty"`
}

// Clique is a clique of the template.
type Clique struct {
	common.PlacedClique `json:",inline"`
	ResourceSharing     []common.SharedClaim `json:"resourceSharing,omitempty"`
}

// ScalingGroup is the configuration of a scaling group.
type ScalingGroup struct {
	common.PlacedScalingGroup `json:",inline"`
	ResourceSharing           []common.GroupSharedClaim `json:"resourceSharing,omitempty"`
}

// SetStatus is the status of a PodCliqueSet.
type SetStatus struct {
	common.NamedSetStatus `json:",inline"`
	UpdateProgress        *SetProgress `json:"updateProgress,omitempty"`
}

// SetProgress is the progress of a PodCliqueSet's update.
type SetProgress struct {
	common.Period        `json:",inline"`
	common.NamedChildren `json:",inline"`
	CurrentlyUpdating    []common.ReplicaProgress `json:"currentlyUpdating,omitempty"`
}

// CliqueStatus is the status of a PodClique.
type CliqueStatus struct {
	common.NamedCliqueStatus `json:",inline"`
	UpdateProgress           *common.CliqueProgress `json:"updateProgress,omitempty"`
}

// ScalingGroupStatus is the status of a PodCliqueScalingGroup.
type ScalingGroupStatus struct {
	common.NamedScalingGroupStatus `json:",inline"`
	UpdateProgress                 *common.NamedScalingGroupProgress `json:"updateProgress,omitempty"`
}

// PodCliqueSet is what users write.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.hpaPodSelector
// +kubebuilder:resource:shortName={pcs}
type PodCliqueSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec      `json:"spec"`
	Status            SetStatus `json:"status,omitempty"`
}

// PodClique is a group of equal pods.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.hpaPodSelector
// +kubebuilder:resource:shortName={pclq}
type PodClique struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              common.PodCliqueSpec `json:"spec"`
	Status            CliqueStatus         `json:"status,omitempty"`
}

// PodCliqueScalingGroup is a group of PodCliques that scale together.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName={pcsg}
type PodCliqueScalingGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              common.ScalingGroupSpec `json:"spec"`
	Status            ScalingGroupStatus      `json:"status,omitempty"`
}
