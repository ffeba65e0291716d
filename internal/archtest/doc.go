// Package archtest tests the architecture: a table says which package may import which, and
// `go list -deps` is compared with it.
package archtest
