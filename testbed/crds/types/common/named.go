package common

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Up to alpha.8 a progress lists the names of what was updated; later ones count them.

// NamedCliques are the PodCliques that were updated.
type NamedCliques struct {
	UpdatedPodCliques []string `json:"updatedPodCliques,omitempty"`
}

// NamedChildren are the objects that were updated.
type NamedChildren struct {
	NamedCliques                  `json:",inline"`
	UpdatedPodCliqueScalingGroups []string `json:"updatedPodCliqueScalingGroups,omitempty"`
}

// NamedScalingGroupProgress is a PodCliqueScalingGroup's progress up to alpha.8.
type NamedScalingGroupProgress struct {
	ScalingGroupProgress `json:",inline"`
	NamedCliques         `json:",inline"`
}

// RollingSetProgress is a PodCliqueSet's rollingUpdateProgress: one replica is updated at a time.
type RollingSetProgress struct {
	Period            `json:",inline"`
	NamedChildren     `json:",inline"`
	CurrentlyUpdating *ReplicaStarted `json:"currentlyUpdating,omitempty"`
}

// ReplicaStarted is the replica that is being updated.
type ReplicaStarted struct {
	ReplicaIndex    int32       `json:"replicaIndex"`
	UpdateStartedAt metav1.Time `json:"updateStartedAt,omitempty"`
}

// RollingSetStatus has a PodCliqueSet's progress under its older name.
type RollingSetStatus struct {
	RollingUpdateProgress *RollingSetProgress `json:"rollingUpdateProgress,omitempty"`
}

// RollingCliqueStatus has a PodClique's progress under its older name.
type RollingCliqueStatus struct {
	RollingUpdateProgress *CliqueProgress `json:"rollingUpdateProgress,omitempty"`
}

// RollingScalingGroupStatus has a PodCliqueScalingGroup's progress under its older name.
type RollingScalingGroupStatus struct {
	RollingUpdateProgress *NamedScalingGroupProgress `json:"rollingUpdateProgress,omitempty"`
}

// NamedSetStatus is the status of a PodCliqueSet from alpha.4 on, as alpha.8 still writes it.
type NamedSetStatus struct {
	SetStatus        `json:",inline"`
	Conditions       `json:",inline"`
	RollingSetStatus `json:",inline"`
}

// NamedCliqueStatus is the status of a PodClique with its progress under the older name.
type NamedCliqueStatus struct {
	CliqueStatus        `json:",inline"`
	RollingCliqueStatus `json:",inline"`
}

// NamedScalingGroupStatus is the status of a PodCliqueScalingGroup with its progress under the older name.
type NamedScalingGroupStatus struct {
	ScalingGroupStatus        `json:",inline"`
	RollingScalingGroupStatus `json:",inline"`
}
