// Package common is where v0.1.0-alpha.10-rc1 makes names with the hash in them.
package common

import "fmt"

// GeneratePodGangName is the name of a PodGang.
func GeneratePodGangName(set, hash string) string { return fmt.Sprintf("%s-%s", set, hash) }
