// Package podgangalpha3 is Grove's scheduler API as alpha.1 to alpha.3 have it.
//
// +groupName=scheduler.grove.io
// +versionName=v1alpha1
package podgangalpha3

import (
	"grovecrds/podgang"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGang is a set of pods that are scheduled together.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName={pg}
type PodGang struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec           `json:"spec"`
	Status            podgang.Status `json:"status,omitempty"`
}

// Spec is the spec of a PodGang.
type Spec struct {
	PodGroups               []podgang.Group                   `json:"podgroups"`
	NetworkPackGroupConfigs []NetworkPackGroup                `json:"networkPackGroupConfigs,omitempty"`
	SpreadConstraints       []corev1.TopologySpreadConstraint `json:"spreadConstraints,omitempty"`
	PriorityClassName       string                            `json:"priorityClassName,omitempty"`
	ReuseReservationRef     *podgang.NamespacedName           `json:"reuseReservationRef,omitempty"`
}

// NetworkPackGroup names pod groups that are placed near each other.
type NetworkPackGroup struct {
	PodGroupNames []string `json:"podGroupNames"`
}
