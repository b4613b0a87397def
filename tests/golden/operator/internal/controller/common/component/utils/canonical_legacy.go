//go:build canonical && !onehash

package utils

import (
	"grovemigrator/fork/operator/api/core"
	"grovemigrator/fork/operator/internal/utils/kubernetes"
)

// ComputePCLQPodTemplateHashLegacy is the older one.
//
//go:noinline
func ComputePCLQPodTemplateHashLegacy(clique *core.Clique, priorityClassName string) string {
	return kubernetes.ComputeHashLegacy(newPCLQPodTemplateSpecForHash(clique, priorityClassName))
}
