// Package converge brings a described part of the world to its wanted state.
//
// It knows no domain. A [Step] looks at something and says how it differs from
// what was asked, and what would close the difference; a [Graph] holds steps and
// what each needs before it. The same look serves four ends:
//
//   - a plan is every step's look, and nothing else ([Graph.Plan]);
//   - a run looks first and acts only where something differs ([Graph.Run]);
//   - resuming after a crash is running again, since the first look finds what is
//     already there: there is no state file;
//   - verification is looking again after acting, until nothing differs.
//
// A step whose dependency is yet to be created cannot look at anything, and says
// so: it is deferred, with its reason. Nothing is simulated at plan time.
//
// Most steps are a [Resource]: Observe reads the state, a pure Diff compares it
// with the spec, Apply closes the difference. A nil Apply means "wait until true".
//
// What a change costs people, a machine that is destroyed or stops, a step says itself
// ([Resource.Costs]): it stands in the plan, and [Graph.May] is asked with it before
// anything is done. [Graph.Before] is where a run takes what it needs to be alone.
//
// A failure stops only what depends on it: siblings finish, and all errors are
// returned joined. Run returns when every goroutine that it started has ended,
// also when its context was cancelled.
package converge
