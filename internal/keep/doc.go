// Package keep atomically writes files on this machine: keys, secrets, kubeconfigs, files that
// the user edits. A file is replaced in one step or stays unchanged, even if the disk is full
// or the power fails. Symbolic links are not followed, and secrets are not written where other
// users could replace them.
package keep
