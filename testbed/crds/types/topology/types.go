// Package topology is Grove's view of a cluster's topology as alpha.9 and later have it: operators list it when they
// start, and end if nobody serves it.
//
// +groupName=grove.io
// +versionName=v1alpha1
package topology

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterTopologyBinding names the levels of a cluster's topology, the widest first.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName={ct}
type ClusterTopologyBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec,omitempty"`
	Status            Status `json:"status,omitempty"`
}

// Spec is the spec of a ClusterTopologyBinding.
type Spec struct {
	// +kubebuilder:validation:MinItems=1
	Levels                    []Level   `json:"levels"`
	SchedulerTopologyBindings []Binding `json:"schedulerTopologyBindings,omitempty"`
}

// Level is one level, and the node label that tells its domains apart.
type Level struct {
	Domain string `json:"domain"`
	Key    string `json:"key"`
}

// Binding names what a scheduler knows the topology by.
type Binding struct {
	SchedulerName     string `json:"schedulerName"`
	TopologyReference string `json:"topologyReference"`
}

// Status is the status of a ClusterTopologyBinding.
type Status struct {
	ObservedGeneration        int64              `json:"observedGeneration,omitempty"`
	Conditions                []metav1.Condition `json:"conditions,omitempty"`
	SchedulerTopologyStatuses []BindingStatus    `json:"schedulerTopologyStatuses,omitempty"`
}

// BindingStatus says whether a scheduler knows the same levels.
type BindingStatus struct {
	Binding                                    `json:",inline"`
	InSync                                     bool   `json:"inSync"`
	Message                                    string `json:"message,omitempty"`
	SchedulerBackendTopologyObservedGeneration int64  `json:"schedulerBackendTopologyObservedGeneration,omitempty"`
}
