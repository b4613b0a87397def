package common

// SharedClaim shares the claims of one ResourceClaimTemplate (alpha.8 and later).
type SharedClaim struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// +kubebuilder:validation:Enum=AllReplicas;PerReplica
	Scope string `json:"scope"`
}

// SetSharedClaim may be narrowed to some cliques and scaling groups.
type SetSharedClaim struct {
	SharedClaim `json:",inline"`
	Filter      *SetFilter `json:"filter,omitempty"`
}

// SetFilter names the children that share.
type SetFilter struct {
	ChildCliqueNames       []string `json:"childCliqueNames,omitempty"`
	ChildScalingGroupNames []string `json:"childScalingGroupNames,omitempty"`
}

// GroupSharedClaim may be narrowed to some cliques.
type GroupSharedClaim struct {
	SharedClaim `json:",inline"`
	Filter      *GroupFilter `json:"filter,omitempty"`
}

// GroupFilter names the cliques that share.
type GroupFilter struct {
	ChildCliqueNames []string `json:"childCliqueNames,omitempty"`
}
