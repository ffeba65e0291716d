// Package lease lets one run at a time change something, across machines.
//
// A lease is a short text in a [Store] that all runs share, and that accepts only one of
// several concurrent writers. It names the holder, the time since when, and a number that the
// holder raises while it runs. A run that finds a lease waits. It takes the lease over when
// the holder has certainly ended, or has not raised the number for 90 seconds by the waiting
// run's own clock; clocks need not agree.
//
// A holder that was suspended, such as a laptop with its lid closed, notices within a second
// after it resumes that it has lost the lease, if the store answers, and in any case before
// its next change ([Lease.Check]).
package lease
