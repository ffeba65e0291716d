// Package chart is a Helm release as a value: a chart, its exact version and the
// values that differ from the chart's own, to be held against a cluster, and brought
// about there.
//
//	client := chart.NewClient(cluster, chart.Source{})
//	have, err := client.Observe(ctx, release)   // installed? what would change? what is not ready?
//	if !release.Diff(have).Empty() {
//	        err = client.Apply(ctx, release, have) // install or upgrade, wait, roll back
//	}
//
// # Charts
//
// A [Source] finds them: in a folder, among earlier downloads, in a classic
// repository or in an OCI registry. [Source.Validate] holds values to the schema of
// the chart and of those inside it, and says everything that is wrong, by path and
// without the values, which may be secrets. [Source.Render] gives the manifest.
// Neither needs a cluster.
//
// # What of Helm is used
//
// The template engine, the merging of values, dependencies, the reading of charts,
// and the format of the records. Helm's actions are not: their install and upgrade
// go on in the background when their context ends, print, and refuse to touch a
// release that was once cut off. What they do is little, and is done here by
// requests that all end with the caller's context: hooks, objects in Helm's order,
// readiness, record. Records are Helm's own, so that `helm list`, `helm history` and
// `helm rollback` know our releases, and releases that somebody made with Helm are
// simply upgraded. No type of Helm's is in the interface of this package.
//
// Objects are applied from the server's side under the field manager "helm", as
// Helm 4 does. Fields that Helm 3 once set are taken over first, so that one that is
// no longer asked for goes away.
//
// # When nothing is to be done
//
// A revision's record carries a digest of all that its templates could see: the
// chart's files, the values, the version of Kubernetes, and those kinds the chart
// asks for. As long as that is the same, what is wanted is the manifest in the
// record, and nothing is rendered. Where it is not, or Helm made the record, the
// chart is rendered as for that very revision, twice: what differs between the two is
// drawn at random, and counts as unchanged. So passwords made by randAlphaNum stay
// until the next upgrade, which draws them anew, as with Helm, unless the chart looks
// up what it made before. What a chart looks up of other objects is noticed only
// when something else changes.
//
// Then each object is read and compared with what its manifest asks for; only where
// they differ is the API server asked, by a dry run, what applying would change.
// What somebody changed by hand is found so, and put right without a new revision
// and without hooks. Fields that a controller takes over by design are left to it: a
// webhook's certificate authority, and replicas that an autoscaler has set. Values of
// Secrets are never shown, only that they differ. Definitions of kinds in crds
// folders are compared by digest; unlike with Helm they are upgraded too, and like
// with Helm never deleted.
//
// # When something goes wrong
//
// Waiting names the object and what keeps it, down to the pod. A first install that
// fails is removed again, but for what it found, what is marked to be kept, and
// definitions of kinds; an upgrade that fails is followed by a revision that brings
// back the last one that succeeded. The error, a [*FailedError], says both.
//
// When the context ends, or the process does, the record stays pending and nothing
// is undone: nothing is asked of the cluster any more once Apply has returned, and of
// what was asked only the last may still be under way there. The next Apply marks
// that record as failed, and goes on to what is asked, removing whatever the
// interrupted revision had made that is not in it. Hooks run again from the first.
//
// # What is not here
//
// Post-renderers, plugins, signatures, tests of charts, and the waiting for an
// address of a Service of type LoadBalancer. Charts whose templates are random
// render otherwise each time: [Source.Render] of those is not reproducible.
package chart
