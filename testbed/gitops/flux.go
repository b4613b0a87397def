// Package gitops names the API of Flux whose CRDs the tests install, so that its module stays in go.mod.
package gitops

import _ "github.com/fluxcd/helm-controller/api/v2"
