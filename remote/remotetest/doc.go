// Package remotetest holds what one needs to test a [remote.Runner], or anything
// that uses one: the suite that says what a Runner must do, and an SSH server that
// fits in a test.
//
// [Contract] is the suite. SSH and the QEMU guest agent both pass it, and so should
// any Runner written elsewhere. It goes by the weakest transport: input of tens of
// kilobytes, output of hundreds. [Bulk] adds what a transport that streams can do.
// Both run real commands; [Contract] says which the machine must have.
//
// [Server] is an SSH server in process, speaking the real protocol over any
// net.Conn, a net.Pipe too. What commands do is up to a function: in a simulated
// machine it interprets them, and [LocalExec] runs them on this machine. All its
// waiting is on channels and contexts, so it runs inside a testing/synctest
// bubble, where an hour passes in a millisecond.
//
// What this package is not: a mock. There are no canned answers to record, and a
// test that wants a failing machine gives it an Exec, an Authorize or a
// connection that fails.
package remotetest
