// Package common holds what the release lines of Grove's API share. Field names and the markers that make the API
// server default or refuse are those of Grove; the pod spec is k8s.io/api's own, of the minor that go.mod names.
package common

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodCliqueSpec is the spec of a PodClique and of a clique in a PodCliqueSet's template.
type PodCliqueSpec struct {
	RoleName          string         `json:"roleName"`
	PodSpec           corev1.PodSpec `json:"podSpec"`
	Replicas          int32          `json:"replicas"`
	MinAvailable      *int32         `json:"minAvailable,omitempty"`
	StartsAfter       []string       `json:"startsAfter,omitempty"`
	AutoScalingConfig *AutoScaling   `json:"autoScalingConfig,omitempty"`
}

// AutoScaling is what a HorizontalPodAutoscaler is made from.
type AutoScaling struct {
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	MaxReplicas int32  `json:"maxReplicas"`
	// +listType=atomic
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`
}

// Template is the part of spec.template that no release changed.
type Template struct {
	// +kubebuilder:default=CliqueStartupTypeAnyOrder
	CliqueStartupType     *StartupType     `json:"cliqueStartupType,omitempty"`
	PriorityClassName     string           `json:"priorityClassName,omitempty"`
	HeadlessServiceConfig *HeadlessService `json:"headlessServiceConfig,omitempty"`
	TerminationDelay      *metav1.Duration `json:"terminationDelay,omitempty"`
}

// StartupType is the order in which cliques start.
// +kubebuilder:validation:Enum={CliqueStartupTypeAnyOrder,CliqueStartupTypeInOrder,CliqueStartupTypeExplicit}
type StartupType string

// HeadlessService configures the Service of a replica.
type HeadlessService struct {
	// +kubebuilder:default=true
	PublishNotReadyAddresses bool `json:"publishNotReadyAddresses"`
}

// CliqueTemplate is the part of a clique that no release changed.
type CliqueTemplate struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        PodCliqueSpec     `json:"spec"`
}

// ScalingGroup is the part of a scaling group's configuration that no release changed.
type ScalingGroup struct {
	Name        string   `json:"name"`
	CliqueNames []string `json:"cliqueNames"`
	// +kubebuilder:default=1
	Replicas *int32 `json:"replicas,omitempty"`
	// +kubebuilder:default=1
	MinAvailable *int32       `json:"minAvailable,omitempty"`
	ScaleConfig  *AutoScaling `json:"scaleConfig,omitempty"`
}

// ScalingGroupSpec is the spec of a PodCliqueScalingGroup.
type ScalingGroupSpec struct {
	// +kubebuilder:default=1
	Replicas int32 `json:"replicas"`
	// +kubebuilder:default=1
	MinAvailable *int32   `json:"minAvailable,omitempty"`
	CliqueNames  []string `json:"cliqueNames"`
}

// Replicated is the part of a PodCliqueSet's spec that no release changed, besides the template.
type Replicated struct {
	// +kubebuilder:default=0
	Replicas int32 `json:"replicas,omitempty"`
}

// UpdatedSpec is a PodCliqueSet's spec from alpha.8 on, without its template.
type UpdatedSpec struct {
	Replicated     `json:",inline"`
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
}

// UpdateStrategy says whether the operator replaces pods itself.
type UpdateStrategy struct {
	// +kubebuilder:default=RollingRecreate
	Type StrategyType `json:"type,omitempty"`
}

// StrategyType names an update strategy.
// +kubebuilder:validation:Enum={RollingRecreate,OnDelete}
type StrategyType string
