// Package fleetread reads a Git repository as Rancher Fleet does, for the lab's simulated
// Fleet: which folders become bundles, their names and contents, and what each asks Helm for.
//
// It follows Fleet's own source, v0.16.1, and uses no code of this project, because it tests
// package fleet, which writes and checks such repositories. Each function names the file of
// Fleet that it follows, below internal/ of github.com/rancher/fleet. Fleet's types and the
// YAML library that it decodes with are Fleet's own.
//
// A feature that the lab's Fleet does not simulate is an [*Unknown] error and gives no bundle:
// if the lab ignored it, a wrong repository would seem to work.
package fleetread
