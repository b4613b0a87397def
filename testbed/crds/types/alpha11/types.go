// Package alpha11 is Grove's API as alpha.10 and alpha.11 have it.
//
// +groupName=grove.io
// +versionName=v1alpha1
package alpha11

import (
	"grovecrds/claims"
	"grovecrds/common"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Spec is the spec of a PodCliqueSet.
type Spec struct {
	// +kubebuilder:default=0
	Replicas       int32                  `json:"replicas,omitempty"`
	UpdateStrategy *common.UpdateStrategy `json:"updateStrategy,omitempty"`
	Template       Template               `json:"template"`
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

// TopologyConstraint names the levels within which a replica must or should be placed.
type TopologyConstraint struct {
	TopologyName string `json:"topologyName,omitempty"`
	PackDomain   Domain `json:"packDomain,omitempty"`
	Pack         *Pack  `json:"pack,omitempty"`
}

// Pack is the newer form of packDomain.
type Pack struct {
	Required  *Domain `json:"required,omitempty"`
	Preferred *Domain `json:"preferred,omitempty"`
}

// Domain is a level of the cluster's topology.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9-]*$`
type Domain string

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
