package k3s

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// serve brings a server up: again from its own disk, as a joining one, or as the
// first of a cluster.
func (n *node) serve(ctx context.Context) int {
	v := n.sys.Root()
	n.embedded = n.cfg.embeds()
	n.clearTombstone(v)
	var code int
	if mark, err := v.ReadFile(etcdMark); err == nil {
		code = n.resume(ctx, mark)
	} else if n.cfg.get("server") != "" {
		code = n.joinServers(ctx)
	} else {
		code = n.form(ctx)
	}
	if code != 0 {
		return code
	}
	if err := n.setIssuer(ctx); err != nil {
		return n.shutdown("apiserver exited: %v", err)
	}
	for {
		err := n.claimName(ctx)
		if err == nil {
			break
		}
		n.say("info", "Waiting to retrieve agent configuration; server is not ready: %v", err)
		if !n.sys.Pause(ctx, retryTime) {
			return 1
		}
	}
	n.writeServerFiles(n.sys.Root())
	n.renew(n.sys.Root())
	return 0
}

// resume starts a server that is a member already.
func (n *node) resume(ctx context.Context, mark []byte) int {
	c, ok := network.ClusterOf(n.sys.Config.Network, disk.Value(mark, "cluster")).(*cluster)
	if !ok {
		if n.cfg.get("server") != "" { // it was restored or made again without this server
			return n.die("this server is not a member of the etcd cluster: the member has been permanently removed from the cluster")
		}
		return n.die("failed to start: etcd cluster of this disk is gone")
	}
	n.say("info", "Managed etcd cluster bootstrap already complete and initialized")
	n.member = disk.Value(mark, "member")
	if n.token != "" && parseToken(n.token).secret != c.secret {
		if n.cfg.get("server") != "" {
			n.say("warning", "Unable to reconcile with remote datastore: not authorized")
		}
		return n.die("Failed to reconcile with temporary etcd: bootstrap data already found and encrypted with different token")
	}
	c.reap(ctx)
	if !c.isMember(n.name, n.member) {
		// etcd ends, and K3s waits for it forever.
		n.sys.Log(n.unit, `{"level":"warn","ts":%q,"caller":"etcdserver/server.go:860","msg":"server error",`+
			`"error":"the member has been permanently removed from the cluster"}`,
			time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
		n.say("error", "etcd exited: server is stopping")
		<-ctx.Done()
		return 1
	}
	n.cluster = c
	if n.sys.Faulty(func(f machine.Faults) bool { return f.StartsSlowly }) && !n.startSlowly(ctx) {
		return 1
	}
	n.afterReset()
	return 0
}

// form makes a new cluster.
func (n *node) form(ctx context.Context) int {
	k := n.sys.Config.Kubernetes
	if k == nil {
		return n.die("starting kubernetes: this simulation has no control plane")
	}
	cfg, err := n.planeConfig()
	if err != nil {
		return n.die("starting kubernetes: preparing server: %v", err)
	}
	if !n.sys.Pause(ctx, firstServerTime) {
		return 1
	}
	plane, err := k.Form(ctx, cfg)
	if err != nil {
		return n.die("starting kubernetes: %v", err)
	}
	t := parseToken(n.token)
	c := &cluster{
		id: machine.HexID(8), secret: t.secret, critical: n.cfg.critical(), plane: plane, net: n.sys.Config.Network, scale: n.sys.Scale,
		ca: certificateAuthority(plane.Kubeconfig("https://127.0.0.1:6443")), members: map[string]member{}, passwords: map[string]string{},
		bootstrap: map[string]bootstrapToken{}, applied: map[string]string{},
	}
	if c.secret == "" {
		c.secret = machine.HexID(16)
	}
	c.caHash = caHash(c.ca)
	if c.agentSecret = parseToken(n.cfg.token(n.sys.Root(), "agent-token")).secret; c.agentSecret == "" {
		c.agentSecret = c.secret
	}
	n.cluster = c
	network.Adopt(n.sys.Config.Network, c.id, c, n.sys.Address())
	return n.addMember()
}

func (n *node) planeConfig() (plane.Config, error) {
	out := plane.Config{
		DNSDomain: n.cfg.critical()["ClusterDomain"], Version: n.version, Disable: n.cfg.commas("disable"),
		PlainSecrets: n.cfg.critical()["EncryptSecrets"] != "true",
	}
	for key, to := range map[string][]*netip.Prefix{
		"ServiceIPRanges": {&out.ServiceCIDR, &out.SecondCIDRs[0]}, "ClusterIPRanges": {&out.PodCIDR, &out.SecondCIDRs[1]},
	} {
		for i, text := range strings.Split(n.cfg.critical()[key], ",") {
			p, err := netip.ParsePrefix(text)
			if err != nil || i >= len(to) {
				return out, fmt.Errorf("invalid CIDR address: %s", text)
			}
			*to[i] = p
		}
	}
	out.Disable = n.cfg.commas("disable")
	out.TLSSANs = append([]string{n.name, n.sys.Address().String()}, n.cfg.commas("tls-san")...)
	return out, nil
}

// joinServers joins an existing cluster, through any of its servers or the VIP.
func (n *node) joinServers(ctx context.Context) int {
	server, err := n.upstreamServer(ctx, n.cfg.get("server"))
	if err == nil && serverOn(server.sys.Machine()) == nil {
		err = errors.New("failed to get CA certs: 503 Service Unavailable")
	}
	if err == nil {
		err = server.cluster.trusts(parseToken(n.token))
	}
	if err != nil {
		return n.die("%sfailed to check if bootstrap data has been initialized: failed to validate token: %v", bootstrapping, err)
	}
	n.say("info", "Managed etcd cluster not yet initialized")
	c := server.cluster
	if err := server.admits(n, "server"); err != nil {
		if errors.Is(err, errNotAuthorized) {
			n.say("warning", "Skipping cluster configuration validation: %v", err)
		}
		return n.die("%s%v", bootstrapping, err)
	}
	if n.mismatched(c) {
		return n.die("%sfailed to validate server configuration: critical configuration value mismatch between servers", bootstrapping)
	}
	n.cluster = c
	n.isJoining(n)
	defer n.isJoining(nil)
	if !n.sys.Pause(ctx, joinServerTime) {
		return 1
	}
	c.reap(ctx)
	c.mu.Lock()
	_, duplicate := c.members[n.name]
	c.mu.Unlock()
	if duplicate {
		return n.shutdown("etcd cluster join failed: duplicate node name found, please use a unique name for this node")
	}
	return n.addMember()
}

// bootstrapping is what the last words of a server that cannot join begin with.
const bootstrapping = "Error: preparing server: failed to bootstrap cluster data: "

// mismatched reports, and logs, the settings that differ from those of the cluster. Of networks
// K3s names a field of its own, not the key (pkg/cluster/bootstrap.go).
func (n *node) mismatched(c *cluster) (some bool) {
	mine := n.cfg.critical()
	for _, name := range slices.Sorted(maps.Keys(c.critical)) {
		if mine[name] == c.critical[name] {
			continue
		}
		some = true
		for _, word := range criticalWords(name) {
			n.say("warning", "critical configuration mismatched: %s", word)
		}
	}
	return some
}

func (n *node) isJoining(who *node) {
	stateOf(n.sys).joining.Store(who)
	n.isSeen()
}

// addMember adds the server to etcd, and to its own disk what makes it one.
func (n *node) addMember() int {
	c := n.cluster
	n.member = machine.HexID(8)
	c.mu.Lock()
	c.members[n.name] = member{id: n.member, address: n.sys.Address()}
	c.mu.Unlock()
	n.sys.Root().Save(etcdMark, "cluster: "+c.id+"\nmember: "+n.member+"\n", 0o600)
	return 0
}

func (n *node) writeServerFiles(v *disk.View) {
	c := n.cluster
	v.Save(serverDir+"/token", c.serverToken()+"\n", 0o600)
	link := func(name, to string) {
		_ = v.Remove(serverDir + "/" + name)
		_ = v.Symlink(to, serverDir+"/"+name)
	}
	link("node-token", serverDir+"/token")
	if c.agentSecret == c.secret {
		link("agent-token", serverDir+"/token")
	} else {
		_ = v.Remove(serverDir + "/agent-token")
		v.Save(serverDir+"/agent-token", c.agentToken()+"\n", 0o600)
	}
	v.Save(serverDir+"/tls/server-ca.crt", c.ca, 0o644)
	v.Save(agentCA, c.ca, 0o600)
	_ = v.MkdirAll(manifestsDir, 0o700)
	mode := fs.FileMode(0o600)
	if m, err := strconv.ParseUint(n.cfg.get("write-kubeconfig-mode"), 8, 12); err == nil {
		mode = disk.UnixMode(m)
	}
	file := n.cfg.get("write-kubeconfig")
	if file == "" {
		file = etc + "/k3s.yaml"
	}
	v.Save(file, string(c.plane.Kubeconfig("https://127.0.0.1:6443")), mode)
}

// manifestsChanged is what K3s' watch of its manifests folder does.
func manifestsChanged(s *machine.System) {
	n := stateOf(s).running.Load()
	if n == nil || n.role != "server" || n.woken.Swap(true) || !s.Enter() {
		return
	}
	go func() {
		defer s.Leave()
		if s.Pause(s.Context(), retryTime) {
			n.woken.Store(false)
			n.deploy(s.Context())
		}
	}()
}
