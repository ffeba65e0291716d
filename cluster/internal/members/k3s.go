package members

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/artifacts"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/secret"
)

// apiPort is the port where the K3s servers, and the VIP in front of them, serve Kubernetes.
const apiPort = "6443"

// apiURL is how members and users of the cluster reach its API.
func apiURL(s *spec.Spec) string {
	return "https://" + net.JoinHostPort(s.APIAddress().String(), apiPort)
}

// k3sNode is the part that servers and agents have in common. It includes labels and taints,
// so that a node has them when it registers. A node that gets them later is Ready without
// them for a while, and pods land there that must not. After that, nodeStep keeps them as in
// the file.
func k3sNode(s *spec.Spec, n spec.Node, id string, extra map[string]any) (k3s.Node, error) {
	node := k3s.Node{Name: n.Name, ProviderID: id, Labels: nodeLabels(s, n), EmbeddedRegistry: s.K3s.EmbeddedRegistry, Extra: extra}
	for _, t := range n.Taints {
		node.Taints = append(node.Taints, t.String())
	}
	var err error
	if node.Registries, err = artifacts.Registries(s); err != nil {
		return node, err
	}
	if !n.DHCP() {
		node.IPs = append(node.IPs, n.Address.Addr())
	}
	if pods := s.K3s.PodCIDR; len(pods) == 2 {
		node.IPs = append(node.IPs, n.Address6.Addr())
		if pods[0].Addr().Is6() { // the family that Kubernetes prefers comes first
			slices.Reverse(node.IPs)
		}
	}
	if i := slices.IndexFunc(n.Networks, func(c spec.Card) bool { return c.Name == s.K3s.Network }); i >= 0 {
		node.ExternalIPs, node.IPs, node.Interface = node.IPs, []netip.Addr{n.Networks[i].Address.Addr()}, s.K3s.Network
	}
	return node, nil
}

// k3sServer is the wanted state of a server. The first server creates the cluster unless it
// joins an existing one; the others always join. id is that of [Kubernetes.ProviderID].
func k3sServer(s *spec.Spec, n spec.Node, id string, joins bool) (k3s.Server, error) {
	extra := map[string]any{}
	for _, more := range []map[string]any{s.K3s.AgentConfig, s.K3s.ServerConfig} {
		for k, v := range more {
			extra[k] = v
		}
	}
	if args := s.Platform.LoginArgs(); args != nil {
		addArgs(extra, "kube-apiserver-arg", args)
	}
	node, err := k3sNode(s, n, id, extra)
	if err != nil {
		return k3s.Server{}, err
	}
	srv := k3s.Server{
		Node: node, Version: s.K3s.Version,
		TLSSANs:     append([]string(nil), s.K3s.TLSSANs...),
		ClusterCIDR: s.K3s.PodCIDR, ServiceCIDR: s.K3s.ServiceCIDR, ClusterDomain: s.K3s.ClusterDomain,
		FlannelBackend: s.K3s.FlannelBackend, Disable: s.K3s.Disable,
		SecretsEncryption: s.K3s.SecretsEncryption.IsOn(),
		SnapshotSchedule:  s.K3s.Snapshots.Schedule, SnapshotRetention: s.K3s.Snapshots.Retention,
	}
	_, said := extra["flannel-ipv6-masq"]
	srv.FlannelIPv6Masq = !said && slices.ContainsFunc(s.K3s.PodCIDR, func(p netip.Prefix) bool { return p.Addr().Is6() }) && s.K3s.FlannelBackend != "none"
	if srv.S3, err = bucket(s); err != nil {
		return srv, err
	}
	if s.K3s.VIP.IsValid() {
		srv.TLSSANs = append([]string{s.K3s.VIP.String()}, srv.TLSSANs...)
	}
	if joins {
		srv.URL = apiURL(s)
		return srv, nil
	}
	if s.K3s.VIP.IsValid() {
		manifest, err := k3s.KubeVIP(k3s.VIP{Address: s.K3s.VIP, Interface: s.K3s.VIPInterface})
		if err != nil {
			return srv, err
		}
		srv.Manifests = map[string][]byte{k3s.KubeVIPManifest: manifest}
	}
	return srv, nil
}

// addArgs adds to a list of arguments of the file, without changing that.
func addArgs(extra map[string]any, key string, more []any) {
	if plus := key + "+"; extra[plus] != nil {
		key = plus
	}
	var all []any
	switch have := extra[key].(type) {
	case nil:
	case []any:
		all = append(all, have...)
	default:
		all = append(all, have)
	}
	extra[key] = append(all, more...)
}

// bucket is where K3s copies snapshots to, with its keys; nil if the file has none.
func bucket(s *spec.Spec) (*k3s.S3, error) {
	b := s.K3s.Snapshots.S3
	if b == nil {
		return nil, nil
	}
	access, err := b.AccessKey.Resolve()
	if err != nil {
		return nil, fmt.Errorf("k3s.snapshots.s3.accessKey: %w", err)
	}
	key, err := b.SecretKey.Resolve()
	if err != nil {
		return nil, fmt.Errorf("k3s.snapshots.s3.secretKey: %w", err)
	}
	return &k3s.S3{Endpoint: b.Endpoint, Region: b.Region, Bucket: b.Bucket, Folder: b.Folder, Insecure: b.Insecure, AccessKey: access, SecretKey: key}, nil
}

// Server is the wanted state of a server, without the token to join with. id is that of [Kubernetes.ProviderID].
func (ms *Members) Server(n spec.Node, id string, joins bool) (k3s.Server, error) {
	return k3sServer(ms.Spec, n, id, joins)
}

// Agent is the wanted state of an agent. id is that of [Kubernetes.ProviderID].
func (ms *Members) Agent(n spec.Node, id string) (k3s.Agent, error) { return k3sAgent(ms.Spec, n, id) }

// CutShortRestore says that a restore of this server was cut short: what it would start from is
// neither the old state nor the new one.
func CutShortRestore(name string, have k3s.State) error {
	return fmt.Errorf("the restore of %s from %s was cut short, and K3s is stopped there: run cluster:restore again, with the same snapshot or another one", name, have.Restoring)
}

func k3sAgent(s *spec.Spec, n spec.Node, id string) (k3s.Agent, error) {
	node, err := k3sNode(s, n, id, s.K3s.AgentConfig)
	return k3s.Agent{Node: node, Version: s.K3s.Version, URL: apiURL(s)}, err
}

// K3sStep installs and starts K3s on a node.
func (ms *Members) K3sStep(n spec.Node) *converge.Resource[k3s.State] {
	step := &converge.Resource[k3s.State]{
		ID:      "k3s/" + n.Name,
		Observe: func(ctx context.Context) (k3s.State, error) { return ms.observeK3s(ctx, n) },
		Costs:   ms.costsOfK3s(n),
		Settle:  joinTime,
		Poll:    run.PollInterval,
	}
	if n.Role == spec.Agent {
		step.Diff = func(have k3s.State) converge.Diff {
			agent, err := k3sAgent(ms.Spec, n, have.ProviderID())
			if err != nil {
				return converge.Missing(err.Error())
			}
			return agent.Diff(have)
		}
		step.Apply = func(ctx context.Context, have k3s.State) error { return ms.convergeAgent(ctx, n, have) }
		return step
	}
	step.Diff = func(have k3s.State) converge.Diff {
		srv, err := k3sServer(ms.Spec, n, have.ProviderID(), ms.joins(n, have))
		if err != nil {
			return converge.Missing(err.Error())
		}
		return srv.Diff(have)
	}
	step.Apply = func(ctx context.Context, have k3s.State) error { return ms.convergeServer(ctx, n, have) }
	return step
}

// joinTime is how long a node may take to join: etcd adds one member at a time, and the node
// may have to unpack images.
const joinTime = 10 * time.Minute

// observeK3s reads the state of K3s, and returns a permanent error if waiting does not help.
func (ks *Kubernetes) observeK3s(ctx context.Context, n spec.Node) (k3s.State, error) {
	if _, err := artifacts.Registries(ks.Spec); err != nil {
		return k3s.State{}, converge.Permanent(err)
	}
	if _, err := bucket(ks.Spec); err != nil && n.Role == spec.Server {
		return k3s.State{}, converge.Permanent(err)
	}
	have, err := k3s.Observe(ctx, ks.Nodes.Root(n.Name))
	if err != nil {
		return have, err
	}
	if err := k3s.CheckArch(have.Arch); err != nil {
		return have, converge.Permanent(fmt.Errorf("%s: %w", n.Name, err))
	}
	if err := ks.Owns(ctx, n, have); err != nil {
		return have, PermanentIfForeign(err)
	}
	if have.Restoring != "" {
		return have, converge.Permanent(CutShortRestore(n.Name, have))
	}
	if err := ks.checkRegion(n.Name, have.ProviderID()); err != nil {
		return have, converge.Permanent(err)
	}
	for _, o := range have.ForeignFiles {
		converge.Progressf(ctx, "K3s also reads %s, which is not from this file; homelab leaves it unchanged", o)
	}
	if isOtherVersion(have, ks.Spec.K3s.Version) {
		if err := ks.checkVersion(string(n.Role), have.Version); err != nil {
			return have, converge.Permanent(err)
		}
	}
	if n.Role == spec.Server {
		if want, err := k3sServer(ks.Spec, n, have.ProviderID(), false); err == nil {
			if err := checkRanges(n, want, have); err != nil {
				return have, converge.Permanent(err)
			}
			if err := want.CheckAddress(have); err != nil {
				return have, converge.Permanent(fmt.Errorf("%s: %w: write the file as it was (k3s.network), or replace one server after the other (node:replace), if there are three", n.Name, err))
			}
		}
	}
	if d, ok := have.Diagnosis(); ok && d.Fatal && have.Version == ks.Spec.K3s.Version && ks.Nodes.Observation(n.Name).Started.Load() {
		return have, converge.Permanent(&k3s.StartError{Role: have.Role, Diagnosis: d})
	}
	return have, nil
}

// checkRanges adds to the error of other networks what to do.
func checkRanges(n spec.Node, want k3s.Server, have k3s.State) error {
	if err := want.CheckRanges(have); err != nil {
		return fmt.Errorf("%s: %w, which K3s cannot change: write k3s.podCIDR and k3s.serviceCIDR as they were, or recreate the cluster (cluster:down, cluster:up)", n.Name, err)
	}
	return nil
}

// CheckRanges returns an error if a server runs with other networks of pods and services than those of the
// file: one that is recreated with these could not join again. A server that does not answer has no error.
func (ks *Kubernetes) CheckRanges(ctx context.Context, n spec.Node) error {
	want, err := k3sServer(ks.Spec, n, "", false)
	if err != nil || n.Role != spec.Server {
		return err
	}
	have, err := k3s.Observe(ctx, ks.Nodes.Root(n.Name))
	if err != nil {
		return ctx.Err()
	}
	return checkRanges(n, want, have)
}

// joins reports whether a server joins a cluster that another server created. The first
// server of the file creates it, unless its configuration shows that it has joined one.
func (ms *Members) joins(n spec.Node, have k3s.State) bool {
	_, joined := have.Config["server"]
	return joined || n.Name != ms.Spec.Servers()[0].Name
}

func (ms *Members) convergeServer(ctx context.Context, n spec.Node, have k3s.State) error {
	joins := ms.joins(n, have)
	ask := func() (secret.Value, error) { return ms.token(ctx, n.Name, k3s.Token) }
	if !joins && have.Config == nil {
		ask = func() (secret.Value, error) { return ms.clusterOfOthers(ctx, n) }
	}
	token, err := ask()
	switch {
	case err == nil && have.Config == nil:
		joins = true // the cluster already exists without this machine
	case joins && err != nil:
		return err
	case errors.Is(err, ErrNoServer): // this server creates the cluster, or did so earlier
	case err != nil:
		return err
	}
	id, err := ms.ProviderID(ctx, n, have)
	if err != nil {
		return err
	}
	srv, err := k3sServer(ms.Spec, n, id, joins)
	if err != nil {
		return err
	}
	if joins { // the server that created the cluster needs no token to join
		srv.Token = token
	}
	if err := ms.markK3s(ctx, n, have); err != nil {
		return err
	}
	ms.Nodes.Observation(n.Name).Started.Store(true)
	if isOtherVersion(have, srv.Version) {
		return ms.upgradeServer(ctx, n, have, srv)
	}
	if err := ms.ensureK3s(ctx, n, have); err != nil {
		return err
	}
	ms.Nodes.Observation(n.Name).Absent.Store(false) // from here on others may ask it
	if joins {
		if err := ms.deleteOldNode(ctx, n, have); err != nil {
			return err
		}
	}
	return ms.configure(ctx, n, have, srv.Diff(have), func(ctx context.Context) error {
		if joins {
			return k3s.JoinServer(ctx, ms.Nodes.Root(n.Name), srv)
		}
		return k3s.StartServer(ctx, ms.Nodes.Root(n.Name), srv)
	})
}

// configure applies other settings to K3s by calling do. If K3s runs and must restart for
// them, the node first waits for its turn.
func (ms *Members) configure(ctx context.Context, n spec.Node, have k3s.State, d converge.Diff, do func(context.Context) error) error {
	if have.Running() && d.Effect() == converge.Restart {
		return ms.RestartK3s(ctx, n, do)
	}
	return do(ctx)
}

// clusterOfOthers is token for a server that would create the cluster. It waits until every
// other server was asked: a server that is only down for a while may have the cluster, and
// there must not be a second one with the same address.
func (ms *Members) clusterOfOthers(ctx context.Context, n spec.Node) (token secret.Value, err error) {
	var unformed error
	rule := converge.WaitRule{What: "asking the other servers whether they have the cluster", Limit: nodes.BootTime}
	err = run.Until(ctx, ms.Spec, rule, func(ctx context.Context) (string, error) {
		if token, unformed = ms.token(ctx, n.Name, k3s.Token); errors.Is(unformed, ErrUnformed) {
			return "", nil
		}
		return "", unformed
	})
	if err == nil {
		return token, unformed
	}
	return token, converge.Permanent(fmt.Errorf("%s would create the cluster, but another server may already have it and does not answer: "+
		"bring that server back, or remove it from the file: %s", n.Name, printable.FirstLine(unformed.Error())))
}

func (ms *Members) convergeAgent(ctx context.Context, n spec.Node, have k3s.State) error {
	id, err := ms.ProviderID(ctx, n, have)
	if err != nil {
		return err
	}
	agent, err := k3sAgent(ms.Spec, n, id)
	if err != nil {
		return err
	}
	joined, err := ms.hasJoined(ctx, n, have)
	if err != nil {
		return err
	}
	if joined {
		return ms.startAgent(ctx, n, have, k3s.Join{Agent: agent})
	}
	return ms.withJoinToken(ctx, n, func(ctx context.Context, token secret.Value) error {
		if err := ms.startAgent(ctx, n, have, k3s.Join{Token: token, Agent: agent}); err != nil {
			return err
		}
		return ms.waitJoined(ctx, n, token)
	})
}

func (ms *Members) startAgent(ctx context.Context, n spec.Node, have k3s.State, join k3s.Join) error {
	agent := join.Agent
	if err := ms.markK3s(ctx, n, have); err != nil {
		return err
	}
	ms.Nodes.Observation(n.Name).Started.Store(true)
	if isOtherVersion(have, agent.Version) {
		return ms.upgradeAgent(ctx, n, have, join)
	}
	if !have.Running() { // a kubelet that starts must not be newer than a server either
		if err := ms.serversFirst(ctx); err != nil {
			return err
		}
	}
	if err := ms.ensureK3s(ctx, n, have); err != nil {
		return err
	}
	if err := ms.deleteOldNode(ctx, n, have); err != nil {
		return err
	}
	return ms.configure(ctx, n, have, agent.Diff(have), func(ctx context.Context) error {
		return k3s.JoinAgent(ctx, ms.Nodes.Root(n.Name), join)
	})
}

// isOtherVersion reports whether K3s runs in another version than wanted.
func isOtherVersion(have k3s.State, want string) bool {
	return have.Role != k3s.RoleNone && have.Version != "" && have.Version != want
}

// ensureK3s installs the binary if the template does not contain it.
func (ms *Members) ensureK3s(ctx context.Context, n spec.Node, have k3s.State) error {
	if have.Version == ms.Spec.K3s.Version {
		return nil
	}
	return artifacts.Install(ctx, ms.Spec, ms.Nodes.Root(n.Name), have.Arch)
}
