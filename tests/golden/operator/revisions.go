//go:build revisions

package main

import "grovemigrator/fork/operator/internal/controller/common/revision"

func init() { revision.Name() }
