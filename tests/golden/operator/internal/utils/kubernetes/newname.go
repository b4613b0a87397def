//go:build newname

package kubernetes

func init() { templateHashV2() }

//go:noinline
func templateHashV2() {}
