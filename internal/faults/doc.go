// Package faults is for tests: it fails every request of an operation, one at a time,
// in every way in which a request can fail, and looks at what is said and at what is
// left.
//
// A test makes a world and says what is done to it ([Case]). [Each] does that once
// undisturbed, which counts the requests, and then in a new world for each request and
// each [Kind] of failure; of each kind, the requests that are of the run's share
// (internal/share). Whatever fails, three things hold: the error says what came from
// below, success means that all is done, and doing it again ends well.
package faults
