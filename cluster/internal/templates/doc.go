// Package templates bakes the VM templates that the machines of a cluster are cloned from,
// finds the ones that are there, and removes what nobody uses.
package templates
