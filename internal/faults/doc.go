// Package faults is for tests: it fails every request of an operation, one at a time, in every
// way, and checks the error and the resulting state.
//
// A test creates a world and an operation on it ([Case]). [Each] runs the operation once
// without faults, which counts the requests, and then in a new world for each request and each
// [Kind] of failure; of each kind, only the requests in the run's share (internal/share).
// Whatever fails, three things must hold: the error contains its cause, success means that
// everything is done, and a second attempt succeeds.
package faults
