// Package core has the fields of a PodCliqueSet that reach a hash.
package core

import corev1 "k8s.io/api/core/v1"

// PodCliqueSet is a set.
type PodCliqueSet struct {
	Spec struct {
		Template struct {
			PriorityClassName string    `json:"priorityClassName"`
			StartupType       *string   `json:"cliqueStartupType"`
			Cliques           []*Clique `json:"cliques"`
		} `json:"template"`
	} `json:"spec"`
}

// Clique is one template of a set.
type Clique struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Spec        struct {
		PodSpec corev1.PodSpec `json:"podSpec"`
	} `json:"spec"`
}
