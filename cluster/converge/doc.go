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
// ([Resource.Costs]): the plan shows it, and [Graph.May] decides about it before anything is
// done. [Graph.Before] is where a run takes its lease.
//
// A failure stops only what depends on it: siblings finish, and all errors are
// returned joined. Run returns when every goroutine that it started has ended,
// also when its context was cancelled.
package converge
