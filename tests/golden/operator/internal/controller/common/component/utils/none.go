//go:build nohash

// Package utils asks for no hash.
package utils

import "grovemigrator/fork/operator/api/core"

// ComputePCLQPodTemplateHash is the clique's name.
func ComputePCLQPodTemplateHash(clique *core.Clique, _ string) string { return clique.Name }
