// Package consent is the one rule by which changes are agreed to: nothing that somebody
// may miss is stopped, nothing with data is destroyed, and nobody gets a login to machines
// that others may have made, before somebody has said yes to just that.
//
// What a change would cost is said by the steps of package cluster, as a [converge.Cost]:
// the machine, what is on it, whose work ends, for how long. An [Agreement] is what somebody has said
// yes to; its May fits a [converge.Graph]:
//
//	plan, err := up.Plan(ctx)
//	agreed := consent.Agreement{Restarts: true}
//	if lacking := agreed.Lacking(plan); len(lacking) > 0 {
//		// show them, ask, and
//		agreed.Agree(lacking...)
//	}
//	up.May = agreed.May
//	report, err := up.Run(ctx, nil)
//
// A yes is to the thing that was shown, such as one VM among all that may have its name, and to what
// was in it. What was not shown, because it came later or could not be seen before, is refused with a
// [RefusedError] when the run would lose it; the rest goes on.
//
// [Look] says whose work runs on the nodes of a cluster. The package asks nobody and prints
// nothing.
package consent
