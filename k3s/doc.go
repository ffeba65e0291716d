// Package k3s sets up K3s on any machine that runs commands.
//
// A [Server] or an [Agent] is the wanted state of K3s on a machine, [Observe] reads the
// present state, in one round trip, and Diff compares the two. [Install] installs one exact
// release, checked against the release's own checksums; StartServer, JoinServer and JoinAgent
// write what differs and start the unit, and [Wait] waits and reports for what. All of them
// can be repeated at any time: they do not touch what is up to date, and finish what was
// interrupted.
//
// The machine is a [remote.Runner] that runs commands as root (see remote.Sudo). It does not
// matter how it is reached; it can be any Linux with systemd, a POSIX shell and curl.
//
// # Starting without hanging
//
// A K3s agent that may not join, because its token is wrong or its name is taken, does not
// fail. It retries forever, and `systemctl start` waits with it. So units are started without
// waiting, and the journal is read: [Diagnose] knows K3s' own messages for permanent problems,
// and Wait returns those at once, as a [*StartError] that says what to do.
//
// # Secrets
//
// The token is never in config.yaml, in an argument or in an error: it is sent on stdin to a
// file of mode 0600 that config.yaml names. Servers join with the cluster's own, which is read
// from a running server ([Token]) and never generated twice. An agent joins with a token that
// [CreateToken] made for it and that [RevokeToken] deletes once it has joined: what is left on a
// worker then opens nothing. The agent keeps the certificate of its node, and starts again with
// that.
//
// # High availability
//
// Three servers share etcd. kube-vip keeps a virtual address on one of the running servers.
// Its manifest ([KubeVIP]) is on the first server before that starts; all other servers, all
// agents and the kubeconfig use the address. So the cluster survives the loss of its first
// server:
//
//	vip := netip.MustParseAddr("10.0.0.10")
//	first := k3s.Server{Version: k3s.DefaultVersion, TLSSANs: []string{vip.String()}, …}
//	first.Manifests = map[string][]byte{k3s.KubeVIPManifest: manifest}
//	err := k3s.StartServer(ctx, machine, first)
//
// Replace a lost first server with one that joins: one without a URL would create another
// cluster.
//
// Not in this package: a Kubernetes client and the draining of nodes (see package kube), and
// K3s with an external database.
package k3s
