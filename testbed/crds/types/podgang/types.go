// Package podgang is Grove's scheduler API as alpha.4 and later have it.
//
// +groupName=scheduler.grove.io
// +versionName=v1alpha1
package podgang

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodGang is a set of pods that are scheduled together.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName={pg}
type PodGang struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

// Spec is the spec of a PodGang.
type Spec struct {
	PodGroups                      []PodGroup              `json:"podgroups"`
	TopologyConstraint             *TopologyConstraint     `json:"topologyConstraint,omitempty"`
	TopologyConstraintGroupConfigs []TopologyConstraintSet `json:"topologyConstraintGroupConfigs,omitempty"`
	PriorityClassName              string                  `json:"priorityClassName,omitempty"`
	ReuseReservationRef            *NamespacedName         `json:"reuseReservationRef,omitempty"`
}

// PodGroup is the pods of one PodClique.
type PodGroup struct {
	Group              `json:",inline"`
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
}

// Group is the part of a pod group that no release changed.
type Group struct {
	Name          string           `json:"name"`
	PodReferences []NamespacedName `json:"podReferences"`
	MinReplicas   int32            `json:"minReplicas"`
}

// TopologyConstraint says how near to each other pods are placed.
type TopologyConstraint struct {
	PackConstraint *PackConstraint `json:"packConstraint,omitempty"`
}

// PackConstraint names node labels.
type PackConstraint struct {
	Required  *string `json:"required,omitempty"`
	Preferred *string `json:"preferred,omitempty"`
}

// TopologyConstraintSet constrains some pod groups.
type TopologyConstraintSet struct {
	Name               string              `json:"name"`
	PodGroupNames      []string            `json:"podGroupNames"`
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
}

// NamespacedName refers to an object.
type NamespacedName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Status is the status of a PodGang.
type Status struct {
	Phase          string             `json:"phase"`
	Conditions     []metav1.Condition `json:"conditions,omitempty"`
	PlacementScore *float64           `json:"placementScore,omitempty"`
}
