//go:build gangnames || gangmaps

package podcliqueset

import (
	"grovemigrator/fork/operator/api/common"
	"grovemigrator/fork/operator/internal/controller/podcliqueset/components/podgangmap"
)

func named(hash string) string { return podgangmap.Entry(common.Name(hash)) }
