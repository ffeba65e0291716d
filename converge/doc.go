// Package converge brings a described part of the world to its wanted state.
//
// It is independent of any domain. A [Step] checks something and says how it differs from what
// is wanted, and what would close the difference; a [Graph] has steps and their dependencies.
// The same check serves four purposes:
//
//   - a plan checks every step, and does nothing else ([Graph.Plan]);
//   - a run checks first and acts only if something differs ([Graph.Run]);
//   - to resume after a crash, run again: the first check finds what already exists, so there
//     is no state file;
//   - verification checks again after acting, until nothing differs.
//
// A step whose dependency does not exist yet cannot be checked: it is deferred, with the
// reason. Nothing is simulated at plan time.
//
// Most steps are a [Resource]: Observe reads the state, a pure Diff compares it
// with the spec, Apply closes the difference. A nil Apply means "wait until true".
//
// A step reports what a change costs people, such as a machine that is destroyed or stopped
// ([Resource.Costs]): the plan shows it, and [Graph.Approve] decides about it before anything is
// done. [Graph.BeforeActing] is where a run takes its lease.
//
// A failure stops only what depends on it: siblings finish, and all errors are
// returned joined. Run returns when every goroutine that it started has ended,
// also when its context was cancelled.
//
// # Consent
//
// An [Agreement] is what a user has said yes to; its Approve fits a graph:
//
//	plan, err := up.Plan(ctx)
//	agreed := converge.Agreement{Restarts: true}
//	if lacking := agreed.Lacking(plan); len(lacking) > 0 {
//		// show them, ask, and
//		agreed.Agree(lacking...)
//	}
//	up.Approve = agreed.Approve
//	report, err := up.Run(ctx, nil)
//
// A yes is to the thing that was shown, such as one VM among all that may have its name, and to
// what was in it. What was not shown, because it came later or could not be seen before, is
// refused with a [RefusedError] when the run would lose it; the rest goes on.
//
// # Waiting
//
// [Until] is the loop that all code here uses to wait for something. An error that waiting does
// not fix ends the wait at once and is returned unchanged ([Permanent]). After any other error
// the loop checks again until its time is over; the result of the last check is the progress
// line meanwhile, and is in the error together with the reason why the wait ended. Time limits
// count only time in which the program runs, not that of a sleeping laptop ([WithRunningTimeout]).
//
// # Progress
//
// Deep code says what it does ([Progressf]), unaware who listens: a caller that wants to know puts a
// listener into the context with [WithProgress].
//
// # Leases
//
// One run at a time changes something, across machines, if it holds a [Lease]. A lease is a
// short text in a [LeaseStore] that all runs share, and that accepts only one of
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
package converge
