// Package jupyterhub is a notebook hub with GPU profiles, as the values of Zero to
// JupyterHub's chart.
//
// A [Hub] says in a page what people get: who may log in ([Auth]), what they can
// start ([Profile]), and where their files are ([Home], [Share], [Scratch]).
// [Hub.Part] makes a [chart.Part] of it: the release, the Secret beside it, and the
// few objects that the chart does not know. Nothing here talks to a cluster, but for
// the checks at the end of this page.
//
// # What fits
//
// The commonest complaint about a hub is a server that stays pending for ever. [Fit]
// knows it beforehand: it lays each profile on each pool of nodes, by what pods can
// really have there ([Allocatable]) and by taints, labels, shares of GPUs and quotas,
// and says how many run at once, or what the largest is that would.
//
// # Secrets
//
// The chart's values hold none. Everything that nobody may read lives in one Secret
// that the chart is told of (hub.existingSecret), and whose generated keys are made
// once and kept. The chart's own Secret keeps one more, which it makes itself and
// looks up again at each upgrade: the token between hub and proxy.
//
// # Proof
//
// [Verify] does what a person would do: it asks the hub's API for a server of each
// profile, follows what the hub says while it starts, runs code in it, and on a GPU
// CUDA, and removes it. For that every hub carries a service with a token of its own
// (verifyService) which may start and stop the servers of one user, who can never
// log in. It works alike with all kinds of [Auth].
package jupyterhub
