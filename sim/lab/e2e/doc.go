// Package e2e runs the Mage targets as a user does, against the lab: a process, a folder, a
// cluster file. Its tests cover what other tests cannot: exit codes, signals, kill -9, kubectl
// from another shell.
//
// Each test has a lab of its own and mostly waits, so the tests run in parallel.
package e2e
