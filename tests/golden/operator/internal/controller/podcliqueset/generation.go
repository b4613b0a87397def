package podcliqueset

import "grovemigrator/fork/operator/api/core"

// Generation is the generation hash of a set.
func Generation(set *core.PodCliqueSet) string { return named(computeGenerationHash(set)) }
