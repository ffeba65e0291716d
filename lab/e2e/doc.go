// Package e2e runs the Mage targets as a user does, against the lab: a process, a
// folder, a cluster file. Its tests are about what only that can show: exit codes,
// signals, kill -9, kubectl from another shell.
//
// Each test has a lab of its own, and waits more than it works: they run beside each other.
package e2e
