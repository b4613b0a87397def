// Package alpha3 is Grove's API as alpha.1 to alpha.3 have it.
//
// +groupName=grove.io
// +versionName=v1alpha1
package alpha3

import (
	"grovecrds/common"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Spec is the spec of a PodCliqueSet.
type Spec struct {
	common.Replicated        `json:",inline"`
	Template                 Template                          `json:"template"`
	ReplicaSpreadConstraints []corev1.TopologySpreadConstraint `json:"replicaSpreadConstraints,omitempty"`
}

// Template is spec.template.
type Template struct {
	common.Template        `json:",inline"`
	Cliques                []common.CliqueTemplate `json:"cliques"`
	SchedulingPolicyConfig *SchedulingPolicy       `json:"schedulingPolicyConfig,omitempty"`
	PodCliqueScalingGroups []common.ScalingGroup   `json:"podCliqueScalingGroups,omitempty"`
}

// SchedulingPolicy says which cliques are placed near each other.
type SchedulingPolicy struct {
	NetworkPackGroupConfigs []NetworkPackGroup `json:"networkPackGroupConfigs,omitempty"`
}

// NetworkPackGroup names cliques.
type NetworkPackGroup struct {
	CliqueNames []string `json:"cliqueNames"`
}

// SetStatus is the status of a PodCliqueSet.
type SetStatus struct {
	common.SetStatus        `json:",inline"`
	common.RollingSetStatus `json:",inline"`
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
