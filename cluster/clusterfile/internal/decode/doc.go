// Package decode fills the structs of cluster/spec from the tree of a file or of a Go value, by their
// tags, and remembers the place of every field for messages.
// [github.com/cps-gpu/homelab/cluster/clusterfile] completes and checks them.
package decode
