// Package fleetread reads a Git repository as Rancher Fleet does, for the Fleet that
// the lab plays: which folders become bundles, how these are called, what is in them,
// and what each asks Helm for.
//
// It is a reading of Fleet's own source, v0.16.1, and of nothing of this project:
// package fleet, which writes such repositories and judges them, is judged by it. Each
// function names the file of Fleet's that it follows, below internal/ of
// github.com/rancher/fleet. Fleet's types and the YAML library that it decodes with are
// Fleet's own.
//
// What the lab's Fleet does not play is an [*Unknown] error and no bundle: a lab that
// passed over what it does not know would say of a wrong repository that it works.
package fleetread
