// Package fleet is Rancher Fleet: it installs it, renders bundles for it, lints them,
// and asks how they are.
package fleet
