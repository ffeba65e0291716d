// Package helm compares a [chart.Release] with a cluster, installs and upgrades it.
//
//	client := helm.NewClient(cluster, helm.Source{})
//	have, err := client.Observe(ctx, release) // installed? what would change? what is not ready?
//	if !have.Diff().Empty() {
//	        err = client.Apply(ctx, release) // install or upgrade, wait, roll back
//	}
//
// # Charts
//
// A [Source] finds them: in a folder, among earlier downloads, in a classic repository or in
// an OCI registry. [Source.Check] checks values against the schemas of the chart and of the
// charts inside it, and reports all mistakes by path, without the values, which may be
// secrets. [Source.Render] returns the manifest. Neither needs a cluster.
//
// # What of Helm is used
//
// The template engine, the merging of values, dependencies, the reading of charts, and the
// format of the records. Helm's actions are not used: install and upgrade continue in the
// background when their context ends, print, and refuse a release that was once interrupted.
// This package does the same work with requests that all end with the caller's context: hooks,
// objects in Helm's order, readiness, record. Records have Helm's own format: `helm list`,
// `helm history` and `helm rollback` know our releases, and releases that somebody installed
// with Helm are simply upgraded. The interface of this package has none of Helm's types; package chart, which names releases, carries nothing of Helm.
//
// Objects are written by server-side apply under the field manager "helm", as Helm 4 does.
// Fields that Helm 3 set are taken over first, so that they are removed when the chart no
// longer has them.
//
// # When nothing is to be done
//
// A revision's record carries a digest of everything that its templates could see: the chart's
// files, the values, the version of Kubernetes, and the kinds that the chart asks for. While
// the digest is the same, the wanted manifest is the one in the record, and nothing is
// rendered. If it differs, or Helm made the record, the chart is rendered twice as for that
// revision: what differs between the two renderings is random, and counts as unchanged. So
// passwords from randAlphaNum stay until the next upgrade, which generates new ones, as with
// Helm, unless the chart looks up the old ones. A change of other objects that a chart looks
// up is noticed only when something else changes too.
//
// Then each object is read and compared with what its manifest asks for; only if they differ,
// a dry run asks the API server what applying would change. This finds changes by hand, which
// are repaired without a new revision and without hooks. Fields that a controller takes over
// by design stay as it sets them: a webhook's certificate authority, and replicas that an
// autoscaler has set. Values of Secrets are never shown, only that they differ. Definitions of
// kinds in crds folders are compared by digest. They are upgraded, unlike with Helm, and never
// deleted, as with Helm.
//
// # When something goes wrong
//
// While it waits, it names the object and what blocks it, down to the pod. A failed first
// install is removed, except for objects that existed before, objects marked to be kept, and
// definitions of kinds; a failed upgrade is rolled back to the last successful revision. The
// error, a [*FailedError], says both.
//
// When the context or the process ends, the record stays pending and nothing is undone: once
// Apply has returned it sends no further request, and at most the last one is still being
// processed. The next Apply marks that record as failed, installs what is wanted, and removes
// other objects that the interrupted revision created. Hooks run again from the first.
//
// # What is not here
//
// Post-renderers, plugins, signatures, tests of charts, and the waiting for an address of a
// Service of type LoadBalancer. For charts with random values, [Source.Render] is not
// reproducible.
package helm
