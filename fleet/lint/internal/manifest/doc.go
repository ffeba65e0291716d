// Package manifest reads the YAML of a Git repository: each document of a file, with the place
// of every node, and the nodes that do not fit the Go type that will read them. It is
// independent of Fleet's rules; see [github.com/cps-gpu/homelab/fleet/lint].
package manifest
