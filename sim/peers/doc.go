// Package peers tries other people's test suites on the simulated Proxmox VE.
//
// They were written against real hosts by people who did not have this simulator in
// mind, so they find what our own recordings and tests do not. Each suite comes as a
// Go module at a pinned version, is copied, and runs against a pvesim that is a process
// of its own. What fails is held against expected.yaml, where each failure has its reason;
// the list may only get shorter: a test on it that passes is an error too.
package peers
