package common

// From alpha.9 on a progress counts what was updated.

// CountedCliques counts PodCliques.
type CountedCliques struct {
	// +kubebuilder:default=0
	UpdatedPodCliquesCount int32 `json:"updatedPodCliquesCount,omitempty"`
	// +kubebuilder:default=0
	TotalPodCliquesCount int32 `json:"totalPodCliquesCount,omitempty"`
}

// CountedScalingGroupProgress is a PodCliqueScalingGroup's progress from alpha.9 on.
type CountedScalingGroupProgress struct {
	ScalingGroupProgress `json:",inline"`
	CountedCliques       `json:",inline"`
}

// CountedSetProgress is a PodCliqueSet's progress from alpha.9 on.
type CountedSetProgress struct {
	Period         `json:",inline"`
	CountedCliques `json:",inline"`
	// +kubebuilder:default=0
	UpdatedPodCliqueScalingGroupsCount int32 `json:"updatedPodCliqueScalingGroupsCount,omitempty"`
	// +kubebuilder:default=0
	TotalPodCliqueScalingGroupsCount int32             `json:"totalPodCliqueScalingGroupsCount,omitempty"`
	CurrentlyUpdating                []ReplicaProgress `json:"currentlyUpdating,omitempty"`
}

// CountedSetStatus is a PodCliqueSet's status from alpha.9 on.
type CountedSetStatus struct {
	SetStatus      `json:",inline"`
	Conditions     `json:",inline"`
	UpdateProgress *CountedSetProgress `json:"updateProgress,omitempty"`
}

// CountedCliqueStatus is a PodClique's status from alpha.9 on.
type CountedCliqueStatus struct {
	CliqueStatus   `json:",inline"`
	UpdateProgress *CliqueProgress `json:"updateProgress,omitempty"`
}

// CountedScalingGroupStatus is a PodCliqueScalingGroup's status from alpha.9 on.
type CountedScalingGroupStatus struct {
	ScalingGroupStatus `json:",inline"`
	UpdateProgress     *CountedScalingGroupProgress `json:"updateProgress,omitempty"`
}
