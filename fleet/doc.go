// Package fleet is Rancher Fleet: it writes what Fleet deploys, puts it into Git,
// points Fleet there, and asks how it went. Package fleet/lint says of any Fleet
// repository what is wrong with it.
//
// # What goes into Git
//
// [FromParts] makes bundles of chart.Parts, and [Render] a folder of bundles: one
// directory each, with a fleet.yaml that says what differs from Fleet's defaults and
// why, the values that differ from the chart's own, or one file per object. The same
// parts give the same bytes, so a diff is what changed and nothing else.
//
// A part becomes up to four bundles, since one Helm release cannot hold both the
// definition of a kind and an object of it, and since Fleet deploys either a chart or
// a directory's manifests: NAME-crds, NAME-before, NAME (the chart), NAME-after. They
// depend on each other in this order, and on the last bundle of each part that is
// needed.
//
// What Fleet would accept and do harm with is an error: the name of a release that is
// Rancher's or Fleet's own, a chart without a version, one object in two bundles,
// bundles that wait for each other, a Secret.
//
// # Whose files they are
//
// The folder belongs to people. It holds a list of the files that are ours, with their
// digests ([ListFile]); every other file stays as it is. A file of ours that somebody
// changed is named and not overwritten ([ForeignError]), in a local folder ([Write])
// as in a repository ([Remote.Push]).
//
// # Pushing
//
// [Remote] reads the branch into memory, one commit deep, and [Remote.Push] puts one
// commit on top of it, over HTTPS or SSH. Nothing is ever forced: when the branch has
// moved, it is read again, and the commit recreated where our folder was left alone.
// A connection that is lost while pushing leads to another look, since nobody else
// knows whether the server took the commit. There is no clone on disk, and no Git
// program is needed.
//
// # Asking
//
// [Observe] reads a GitRepo, its bundles, and what became of them on each cluster.
// [State.Diff] says which object of which bundle is in the way, and why. It takes the
// commit that should be deployed: without one, a state from before the last push looks
// like success.
//
// What this package is not: a client for many clusters. It knows the cluster that
// Fleet runs in; targets are left to those who have more.
package fleet
