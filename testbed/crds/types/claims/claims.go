// Package claims is apart from package common because k8s.io/api 0.33 has no resource/v1.
package claims

import resourcev1 "k8s.io/api/resource/v1"

// Template is a named ResourceClaimTemplate inside a PodCliqueSet.
type Template struct {
	Name         string                               `json:"name"`
	TemplateSpec resourcev1.ResourceClaimTemplateSpec `json:"templateSpec"`
}
