// Package remotetest is a conformance suite for a [remote.Runner].
//
// [Contract] is the suite. SSH and the QEMU guest agent pass it, and so should any other
// Runner. It suits the weakest transport: input of tens of kilobytes, output of hundreds.
// [Bulk] adds tests for transports that stream. Both run real commands; [Contract] says which
// the machine must have.
package remotetest
