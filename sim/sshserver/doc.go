// Package sshserver is an SSH server for tests and simulated machines, which speaks the real
// protocol over any net.Conn, including a net.Pipe. A function runs the commands: a simulated
// machine interprets them, and [LocalExec] runs them on this machine. The server waits only on
// channels and contexts, so it works inside a testing/synctest bubble, where an hour passes in a
// millisecond.
//
// It has no canned answers. To test a failing machine, use an Exec, an Authorize or a connection
// that fails.
package sshserver
