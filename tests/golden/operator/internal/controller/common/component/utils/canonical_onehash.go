//go:build canonical && onehash

package utils

import "grovemigrator/fork/operator/api/core"

// ComputePCLQPodTemplateHashLegacy is no older one: this operator accepts its own hash only.
//
//go:noinline
func ComputePCLQPodTemplateHashLegacy(clique *core.Clique, priorityClassName string) string {
	return ComputePCLQPodTemplateHash(clique, priorityClassName)
}
