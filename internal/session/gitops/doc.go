// Package gitops has the commands about Fleet that only look: fleet:lint and fleet:status.
package gitops
