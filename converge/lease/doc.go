// Package lease lets one run at a time change something, from whatever machine.
//
// A lease is a short text in a [Store] that all runs share, and that lets one of several
// writers through: it says who holds it, since when, and a number that the holder raises
// while it lives. Whoever finds it waits, and takes it over when the holder has surely
// ended, or has not raised the number for 90 seconds while this one watched by its own
// clock: nobody's clocks have to agree.
//
// A holder that was stopped, as a laptop with its lid closed is, learns that it has lost
// the lease within a second of running again, where the store answers, and before its next act
// in any case ([Lease.Check]).
package lease
