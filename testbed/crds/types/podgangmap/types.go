// Package podgangmap is the PodGangMap of Grove's pull request 778, which alpha.12 and later have.
//
// +groupName=grove.io
// +versionName=v1alpha1
package podgangmap

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodGangMap says which pods of one PodCliqueSet replica belong to which PodGang.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName={pgm}
type PodGangMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec `json:"spec,omitempty"`
}

// Spec is the spec of a PodGangMap.
type Spec struct {
	PodCliqueSetReplicaIndex int32 `json:"podCliqueSetReplicaIndex"`
	// +listType=map
	// +listMapKey=epoch
	Entries []Entry `json:"entries"`
}

// Entry stands for one PodGang, or for one per replica of a scaling group.
type Entry struct {
	Epoch                      string `json:"epoch"`
	PodCliqueSetGenerationHash string `json:"podCliqueSetGenerationHash"`
	// +kubebuilder:validation:Enum={Anchor,Tail,ScaleOut}
	Role               string             `json:"role"`
	AnchorIndex        int32              `json:"anchorIndex,omitempty"`
	PodCliques         map[string]int32   `json:"podCliques,omitempty"`
	PCSGReplicaIndices map[string][]int32 `json:"pcsgReplicaIndices,omitempty"`
	DependsOn          []string           `json:"dependsOn,omitempty"`
}
