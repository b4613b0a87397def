//go:build nohash

// Package kubernetes makes no hashes.
package kubernetes
