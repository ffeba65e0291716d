// Package archtest holds the architecture as a test: a table of which package may
// import which, checked over `go list -deps`.
package archtest
