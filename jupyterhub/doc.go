// Package jupyterhub is a notebook hub with GPU profiles, as the values of Zero to
// JupyterHub's chart.
//
// A [Hub] says what people get, as the file does (spec.Hub): who may log in, what they can start, and
// where their files are. [Hub.Part] turns it into a [chart.Part]: the release, its Secret, and the few
// objects that the chart does not have. Except for the checks described last, nothing here talks to a
// cluster.
//
// # What fits
//
// The most common problem of a hub is a server that stays pending forever. [Fit] finds it in
// advance: it compares each profile with each pool of nodes, by the resources that notebooks can
// get there ([Node]) and by taints, labels, shares of GPUs and quotas, and says how
// many servers run at once, or the largest that would fit.
//
// # Secrets
//
// The chart's values have none. All secrets are in one Secret that the values name
// (hub.existingSecret); its generated keys are created once and kept. The chart's own Secret
// has one more, which the chart generates and looks up at each upgrade: the token between hub
// and proxy.
//
// # Proof
//
// [Verify] does what a user would do: it asks the hub's API for a server of each profile,
// reports the hub's messages while it starts, runs code in it, with CUDA on a GPU, and removes
// it. For that every hub has a service with a token of its own (verifyService), which may
// start and stop the servers of one user, who can never log in. This works with every kind of
// login.
package jupyterhub
