// Package fleet works with Rancher Fleet, with Flux and with Argo CD: it writes the files that they
// deploy, pushes them to Git, points the tool to them, and reads the status. Package fleet/lint
// finds mistakes in any Fleet repository.
//
// # What goes into Git
//
// [BundlesOfAll] turns chart.Parts into bundles, and [Render] bundles into a folder: one
// directory each, with a fleet.yaml that says what differs from Fleet's defaults and why, and
// the values that differ from the chart's defaults, or one file per object. The same parts
// give the same bytes, so a diff shows only what changed.
//
// A part becomes up to four bundles, because one Helm release cannot contain both the
// definition of a kind and an object of it, and because Fleet deploys either a chart or a
// directory's manifests: NAME-crds, NAME-before, NAME (the chart), NAME-after. They depend on
// each other in this order, and on the last bundle of each part that they need.
//
// These are errors, because Fleet would accept them and do harm: the name of a release of
// Rancher or Fleet, a chart without a version, one object in two bundles, bundles that wait
// for each other, a Secret.
//
// # Ownership of files
//
// People may have files in the folder. It contains a list of our files with their digests
// ([ListFile]); all other files are left alone. If somebody changed one of our files, it is
// reported and not overwritten ([ForeignError]), both in a local folder ([Write]) and in a
// repository ([Remote.Push]).
//
// # Pushing
//
// [Remote] reads the branch into memory, one commit deep, and [Remote.Push] puts one commit on
// top of it, over HTTPS or SSH. It never force-pushes: if the branch has moved, it is read
// again, and the commit is recreated unless our folder changed. If the connection is lost
// during a push, the branch is read again to see whether the server accepted the commit. There
// is no clone on disk, and no Git program is needed.
//
// # Asking
//
// [Observe] reads a GitRepo, its bundles, and their state on each cluster. [State.Diff] says
// which object of which bundle blocks the deployment, and why. It needs the commit that should
// be deployed: without it, the state before the last push looks like success.
//
// This package supports only the cluster that Fleet runs in, not other target clusters.
package fleet
