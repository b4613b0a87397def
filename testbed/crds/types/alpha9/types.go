// Package alpha9 is Grove's API as alpha.9 has it.
//
// +groupName=grove.io
// +versionName=v1alpha1
package alpha9

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
	Placed          `json:",inline"`
	// +listType=map
	// +listMapKey=name
	Cliques                []Clique                `json:"cliques"`
	ResourceClaimTemplates []claims.Template       `json:"resourceClaimTemplates,omitempty"`
	ResourceSharing        []common.SetSharedClaim `json:"resourceSharing,omitempty"`
	PodCliqueScalingGroups []ScalingGroup          `json:"podCliqueScalingGroups,omitempty"`
}

// Clique is a clique of the template.
type Clique struct {
	common.CliqueTemplate `json:",inline"`
	Placed                `json:",inline"`
	ResourceSharing       []common.SharedClaim `json:"resourceSharing,omitempty"`
}

// ScalingGroup is the configuration of a scaling group.
type ScalingGroup struct {
	common.ScalingGroup `json:",inline"`
	Placed              `json:",inline"`
	Annotations         map[string]string         `json:"annotations,omitempty"`
	ResourceSharing     []common.GroupSharedClaim `json:"resourceSharing,omitempty"`
}

// Placed has a topology constraint.
type Placed struct {
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
}

// TopologyConstraint names the level within which a replica is placed.
type TopologyConstraint struct {
	TopologyName string        `json:"topologyName,omitempty"`
	PackDomain   common.Domain `json:"packDomain"`
}

// PodCliqueSet is what users write.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.hpaPodSelector
// +kubebuilder:resource:shortName={pcs}
type PodCliqueSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec                    `json:"spec"`
	Status            common.CountedSetStatus `json:"status,omitempty"`
}
