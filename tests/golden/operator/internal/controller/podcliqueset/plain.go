//go:build !gangnames && !gangmaps && !othercaller

package podcliqueset

func named(hash string) string { return hash }
