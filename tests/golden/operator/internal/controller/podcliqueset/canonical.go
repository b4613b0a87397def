//go:build canonical

// Package podcliqueset asks for the hash of a set.
package podcliqueset

import (
	"grovemigrator/fork/operator/api/core"
	"grovemigrator/fork/operator/internal/controller/common/component/utils"
)

func computeGenerationHash(set *core.PodCliqueSet) string {
	accepted := utils.ComputePCLQPodTemplateHashLegacy
	for _, clique := range set.Spec.Template.Cliques {
		_ = accepted(clique, set.Spec.Template.PriorityClassName)
	}
	return utils.ComputePCSGenerationHash(set)
}
