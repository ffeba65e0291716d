// Package remotetest helps to test a [remote.Runner], or code that uses one: it has a
// conformance suite for Runners, and an SSH server for tests.
//
// [Contract] is the suite. SSH and the QEMU guest agent pass it, and so should any other
// Runner. It suits the weakest transport: input of tens of kilobytes, output of hundreds.
// [Bulk] adds tests for transports that stream. Both run real commands; [Contract] says which
// the machine must have.
//
// [Server] is an in-process SSH server that speaks the real protocol over any net.Conn,
// including a net.Pipe. A function runs the commands: a simulated machine interprets them, and
// [LocalExec] runs them on this machine. The server waits only on channels and contexts, so it
// works inside a testing/synctest bubble, where an hour passes in a millisecond.
//
// This package is not a mock: it has no canned answers. To test a failing machine, use an
// Exec, an Authorize or a connection that fails.
package remotetest
