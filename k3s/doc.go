// Package k3s sets up K3s on machines that one can run commands on.
//
// A [Server] or an [Agent] says what K3s should be on a machine, [Observe] reads
// what it is, in one round trip, and Diff is what lies between. [Install] puts one
// exact release in place, checked against the release's own checksums; StartServer,
// JoinServer and JoinAgent write what differs and start the unit, and [Wait] waits,
// saying in words for what. All of them may be called again at any time: what is
// right already is left alone, and what was cut short is seen and finished.
//
// The machine is a [remote.Runner] that runs commands as root (see remote.Sudo).
// How it is reached does not matter here, and what it is does little: any Linux
// with systemd, a POSIX shell and curl.
//
// # Starting without hanging
//
// A K3s agent that may not join, because its token is wrong or its name is taken,
// does not fail. It tries for ever, and `systemctl start` waits with it. So units
// are started without waiting, and the journal is read: [Diagnose] knows K3s' own
// words for what will not get better by itself, and Wait returns those at once, as
// a [*StartError] that says what to do.
//
// # Secrets
//
// The token is never in config.yaml, in an argument or in an error: it travels on
// stdin into a file of mode 0600 that config.yaml names. It is read from a running
// server ([Token], [AgentToken]), never made up a second time.
//
// # High availability
//
// Three servers share etcd. An address that always belongs to a living one is made
// by kube-vip, whose manifest ([KubeVIP]) lies on the first server before it
// starts; every other server, every agent and the kubeconfig use that address. So
// the cluster does not die with the server that happened to be first:
//
//	vip := netip.MustParseAddr("10.0.0.10")
//	first := k3s.Server{Version: k3s.DefaultVersion, TLSSANs: []string{vip.String()}, …}
//	first.Manifests = map[string][]byte{k3s.KubeVIPManifest: manifest}
//	err := k3s.StartServer(ctx, machine, first)
//
// A first server that was lost is replaced by one that joins: one without a URL
// would make another cluster.
//
// What this package is not: a Kubernetes client (that is package kube), a way to
// drain nodes before a restart (also kube), or K3s with an external database.
package k3s
