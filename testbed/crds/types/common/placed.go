package common

// From alpha.4 to alpha.8 topology levels are a fixed list of words.

// PlacedClique is a clique of the template.
type PlacedClique struct {
	CliqueTemplate `json:",inline"`
	Placed         `json:",inline"`
}

// PlacedScalingGroup is the configuration of a scaling group.
type PlacedScalingGroup struct {
	ScalingGroup `json:",inline"`
	Placed       `json:",inline"`
}

// Placed has a topology constraint.
type Placed struct {
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
}

// TopologyConstraint names the level within which a replica is placed.
type TopologyConstraint struct {
	// +kubebuilder:validation:Enum=region;zone;datacenter;block;rack;host;numa
	PackDomain string `json:"packDomain"`
}

// Domain is a level of the cluster's topology from alpha.9 on: any word.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9-]*$`
type Domain string
