// Package named is Grove's PodClique and PodCliqueScalingGroup as alpha.1 to alpha.6 have them: a progress lists names.
//
// +groupName=grove.io
// +versionName=v1alpha1
package named

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
	Spec              common.PodCliqueSpec     `json:"spec"`
	Status            common.NamedCliqueStatus `json:"status,omitempty"`
}

// PodCliqueScalingGroup is a group of PodCliques that scale together.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName={pcsg}
type PodCliqueScalingGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              common.ScalingGroupSpec        `json:"spec"`
	Status            common.NamedScalingGroupStatus `json:"status,omitempty"`
}
