//go:build gangnames

// Package common makes names that have the hash in them.
package common

// GeneratePodGangName is a name with the hash.
//
//go:noinline
func GeneratePodGangName(hash string) string { return "gang-" + hash }

// Name is that of the gang, and the hash.
func Name(hash string) string { return GeneratePodGangName(hash)[len("gang-"):] }
