package common

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LastError is an error of the latest reconciliation.
type LastError struct {
	Code        string      `json:"code"`
	Description string      `json:"description"`
	ObservedAt  metav1.Time `json:"observedAt"`
}

// SetStatus is the status of a PodCliqueSet without its update's progress and its conditions.
type SetStatus struct {
	ObservedGeneration *int64      `json:"observedGeneration,omitempty"`
	LastErrors         []LastError `json:"lastErrors,omitempty"`
	Replicas           int32       `json:"replicas,omitempty"`
	// +kubebuilder:default=0
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// +kubebuilder:default=0
	AvailableReplicas     int32           `json:"availableReplicas"`
	HPAPodSelector        *string         `json:"hpaPodSelector,omitempty"`
	PodGangStatuses       []PodGangStatus `json:"podGangStatuses,omitempty"`
	CurrentGenerationHash *string         `json:"currentGenerationHash,omitempty"`
}

// Conditions are what every status but the oldest PodCliqueSet's has.
type Conditions struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodGangStatus sums up one PodGang.
type PodGangStatus struct {
	Name string `json:"name"`
	// +kubebuilder:validation:Enum={Pending,Starting,Running,Failed,Succeeded}
	Phase      string `json:"phase"`
	Conditions `json:",inline"`
}

// CliqueStatus is the status of a PodClique without its update's progress.
type CliqueStatus struct {
	ObservedGeneration *int64      `json:"observedGeneration,omitempty"`
	LastErrors         []LastError `json:"lastErrors,omitempty"`
	Replicas           int32       `json:"replicas,omitempty"`
	// +kubebuilder:default=0
	ReadyReplicas int32 `json:"readyReplicas"`
	// +kubebuilder:default=0
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// +kubebuilder:default=0
	ScheduleGatedReplicas int32 `json:"scheduleGatedReplicas"`
	// +kubebuilder:default=0
	ScheduledReplicas                 int32   `json:"scheduledReplicas"`
	HPAPodSelector                    *string `json:"hpaPodSelector,omitempty"`
	CurrentPodCliqueSetGenerationHash *string `json:"currentPodCliqueSetGenerationHash,omitempty"`
	CurrentPodTemplateHash            *string `json:"currentPodTemplateHash,omitempty"`
	Conditions                        `json:",inline"`
}

// ScalingGroupStatus is the status of a PodCliqueScalingGroup without its update's progress.
type ScalingGroupStatus struct {
	ObservedGeneration *int64      `json:"observedGeneration,omitempty"`
	LastErrors         []LastError `json:"lastErrors,omitempty"`
	Replicas           int32       `json:"replicas,omitempty"`
	// +kubebuilder:default=0
	ScheduledReplicas int32 `json:"scheduledReplicas"`
	// +kubebuilder:default=0
	AvailableReplicas int32 `json:"availableReplicas"`
	// +kubebuilder:default=0
	UpdatedReplicas                   int32   `json:"updatedReplicas"`
	Selector                          *string `json:"selector,omitempty"`
	CurrentPodCliqueSetGenerationHash *string `json:"currentPodCliqueSetGenerationHash,omitempty"`
	Conditions                        `json:",inline"`
}

// Period is when an update started and ended; both may be absent.
type Period struct {
	UpdateStartedAt metav1.Time  `json:"updateStartedAt,omitempty"`
	UpdateEndedAt   *metav1.Time `json:"updateEndedAt,omitempty"`
}

// CliqueProgress is the progress of a PodClique's update; its name in the status depends on the release.
type CliqueProgress struct {
	Period                     `json:",inline"`
	PodCliqueSetGenerationHash string        `json:"podCliqueSetGenerationHash"`
	PodTemplateHash            string        `json:"podTemplateHash"`
	ReadyPodsSelectedToUpdate  *PodsSelected `json:"readyPodsSelectedToUpdate,omitempty"`
}

// PodsSelected are the pods that a rolling update replaced or is replacing.
type PodsSelected struct {
	Current   string   `json:"current"`
	Completed []string `json:"completed,omitempty"`
}

// ScalingGroupProgress is what every release keeps about a PodCliqueScalingGroup's update.
type ScalingGroupProgress struct {
	UpdateStartedAt                     metav1.Time      `json:"updateStartedAt"`
	UpdateEndedAt                       *metav1.Time     `json:"updateEndedAt,omitempty"`
	PodCliqueSetGenerationHash          string           `json:"podCliqueSetGenerationHash"`
	ReadyReplicaIndicesSelectedToUpdate *IndicesSelected `json:"readyReplicaIndicesSelectedToUpdate,omitempty"`
}

// IndicesSelected are the replicas that a rolling update replaced or is replacing.
type IndicesSelected struct {
	Current   int32   `json:"current"`
	Completed []int32 `json:"completed,omitempty"`
}

// ReplicaProgress is an entry of the list currentlyUpdating.
type ReplicaProgress struct {
	ReplicaIndex int32 `json:"replicaIndex"`
	Period       `json:",inline"`
}
