// Package revision stands for an operator that keeps pod templates in ControllerRevisions.
package revision

import "strconv"

// Name is a revision's.
//
//go:noinline
func Name(number int) string { return strconv.Itoa(number) }
