// Package model describes hosts as data: what a simulated cluster begins with, in Go or
// in YAML, and models that have a name.
package model
