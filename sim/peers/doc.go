// Package peers runs other projects' test suites against the simulated Proxmox VE.
//
// They were written for real hosts, independently of this simulator, so they find what our own
// recordings and tests do not. Each suite is a Go module at a pinned version; it is copied,
// and runs against a pvesim process. Failures are compared with expected.yaml, where each has
// a reason; the list may only shrink: a test on it that passes is an error too.
package peers
