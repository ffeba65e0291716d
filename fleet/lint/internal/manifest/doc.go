// Package manifest reads the YAML of a Git repository: each document of a file, with the
// place of everything in it, and what in it does not fit the Go type that will read it.
// It knows nothing of Fleet's rules; see [github.com/cps-gpu/homelab/fleet/lint].
package manifest
