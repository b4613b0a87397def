// Package revision is where Grove pull request 710 keeps pod templates.
package revision

// Name is the name of a revision.
//
//go:noinline
func Name() {}
