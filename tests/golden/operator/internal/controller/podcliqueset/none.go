//go:build nohash

// Package podcliqueset keeps revisions.
package podcliqueset

import (
	"grovemigrator/fork/operator/api/core"
	"grovemigrator/fork/operator/internal/controller/common/revision"
)

func computeGenerationHash(set *core.PodCliqueSet) string {
	return revision.Name(len(set.Spec.Template.Cliques))
}
