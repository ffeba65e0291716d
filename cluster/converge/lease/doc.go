// Package lease lets one run at a time change something, across machines.
//
// A lease is a short text in a [Store] that all runs share, and that accepts only one of
// several concurrent writers. It names the holder, the time since when, and a number that the
// holder raises while it runs. A run that finds a lease waits. It takes the lease over when
// the holder has certainly ended, or has not raised the number for 90 seconds by the waiting
// run's own clock; clocks need not agree.
//
// A holder confirms with the store before each change that the lease is still its own
// ([Lease.Check]), and looks every two seconds besides, so that a run whose lease somebody has
// removed stops. A run that finds no lease makes one and changes nothing for five seconds: by then
// such a run has noticed. All these times are measured by one machine's own clock each.
//
// A holder that was suspended, such as a laptop with its lid closed, notices within a second
// after it resumes that it has lost the lease, if the store answers, and in any case before
// its next change ([Lease.Check]).
package lease
