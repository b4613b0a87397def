// Package counted is Grove's PodClique and PodCliqueScalingGroup as alpha.9 and later have them: a progress counts.
//
// +groupName=grove.io
// +versionName=v1alpha1
package counted

import (
	"grovecrds/common"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodClique is a group of equal pods.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.hpaPodSelector
// +kubebuilder:resource:shortName={pclq}
type PodClique struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              common.PodCliqueSpec       `json:"spec"`
	Status            common.CountedCliqueStatus `json:"status,omitempty"`
}

// PodCliqueScalingGroup is a group of PodCliques that scale together.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName={pcsg}
type PodCliqueScalingGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              common.ScalingGroupSpec          `json:"spec"`
	Status            common.CountedScalingGroupStatus `json:"status,omitempty"`
}
