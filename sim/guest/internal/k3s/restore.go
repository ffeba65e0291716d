package k3s

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/etcdfile"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// resetTime is how long k3s server --cluster-reset takes, as measured.
const resetTime = 6 * time.Second

// resetFlag says that the next start is the first after a reset (pkg/cluster/managed.go).
const resetFlag = serverDir + "/db/reset-flag"

var errOtherToken = errors.New("bootstrap data already found and encrypted with different token")

// reset is k3s server --cluster-reset, with the flag for a snapshot: it makes this server the
// only member of etcd, and ends by itself (pkg/cli/server/server.go, pkg/etcd/etcd.go).
func reset(ctx context.Context, p *machine.Proc, version string, args []string) int {
	fatal := func(format string, args ...any) int {
		fmt.Fprintf(p.Stderr, "time=%q level=fatal msg=%q\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
		return 1
	}
	v := p.Sys.Root()
	cfg, err := readConfig(v, args, nil)
	if err != nil {
		return fatal("Error: %v", err)
	}
	if cfg.get("server") != "" {
		return fatal("Error: cannot perform cluster-reset while server URL is set - remove server from configuration before resetting")
	}
	// As seen with v1.34.3: token-file does not count; the file server/token does, but where
	// there are no certificates K3s makes up a token of its own before it reads it.
	token := cmp.Or(cfg.get("token"), p.Get("K3S_TOKEN"))
	if token == "" {
		data, err := v.ReadFile(serverDir + "/token")
		if err != nil {
			return fatal("Error: %s/token does not exist, please pass --token to complete the restoration", serverDir)
		}
		if _, err := v.Stat(serverDir + "/tls/server-ca.crt"); err == nil {
			token = strings.TrimSpace(string(data))
		}
	}
	if here := stateOf(p.Sys); here.running.Load() != nil || here.joining.Load() != nil || here.resetting.Swap(true) {
		return fatal("Error: listen tcp 127.0.0.1:6444: bind: address already in use")
	}
	defer stateOf(p.Sys).resetting.Store(false)
	file := cfg.get("cluster-reset-restore-path")
	if file == "" {
		return fatal("starting kubernetes: a reset without a snapshot is not simulated")
	}
	n := &node{sys: p.Sys, unit: "k3s.service", role: "server", version: version, cfg: cfg, token: token}
	if n.name = cfg.get("node-name"); n.name == "" {
		n.name = strings.ToLower(p.Sys.Hostname())
	}
	if err := n.restore(ctx, file); err != nil {
		if errors.Is(err, errOtherToken) {
			return fatal("%v", err)
		}
		return fatal("Error: starting kubernetes: failed to start cluster: start managed database: %v", err)
	}
	p.Sys.RecordChange("k3s restored")
	fmt.Fprintf(p.Stderr, "time=%q level=error msg=%q\n", time.Now().UTC().Format(time.RFC3339),
		"Shutdown request received: \"Managed etcd cluster membership has been reset, restart without --cluster-reset flag now. Backup and delete ${datadir}/server/db on each peer etcd server and rejoin the nodes\"")
	return 0
}

// restore makes a cluster of what is in a snapshot.
func (n *node) restore(ctx context.Context, file string) error {
	v := n.sys.Root()
	data, err := v.ReadFile(file)
	if err != nil {
		return fmt.Errorf("etcd: snapshot path does not exist: %s", file)
	}
	keys, err := etcdfile.Decode(data)
	if err != nil {
		return err
	}
	c, saved, err := n.revive(keys)
	if err != nil {
		return err
	}
	saved.Snapshot = data
	cfg, err := n.planeConfig()
	if err != nil {
		return err
	}
	if !n.sys.Pause(ctx, resetTime) {
		return context.Cause(ctx)
	}
	if n.sys.Config.Kubernetes == nil {
		return errors.New("this simulation has no control plane")
	}
	// What was there is no etcd any more: its old folder is kept under another name in life.
	_ = v.RemoveTree(serverDir + "/db/etcd")
	cfg.Saved = saved
	if c.plane, err = n.sys.Config.Kubernetes.Form(ctx, cfg); err != nil {
		return err
	}
	c.ca = certificateAuthority(c.plane.Kubeconfig("https://127.0.0.1:6443"))
	c.caHash = caHash(c.ca)
	n.cluster = c
	network.Adopt(n.sys.Config.Network, c.id, c, n.sys.Address())
	n.addMember()
	v.Save(resetFlag, "", 0o600)
	v.Save(serverDir+"/token", c.serverToken()+"\n", 0o600)
	v.Save(serverDir+"/tls/server-ca.crt", c.ca, 0o644)
	return nil
}

// revive reads a snapshot with the token.
func (n *node) revive(keys map[string][]byte) (*cluster, *plane.SavedState, error) {
	secret := parseToken(n.token).secret
	sealed, ok := keys[bootstrapKey(secret)]
	if !ok {
		return nil, nil, errOtherToken
	}
	files, err := unseal(secret, sealed)
	if err != nil {
		return nil, nil, err
	}
	if authorityOf(files) == nil {
		return nil, nil, errors.New("this simulation's control plane cannot be restored")
	}
	var was own
	if err := json.Unmarshal(keys[ownKey], &was); err != nil {
		return nil, nil, fmt.Errorf("the snapshot is not one of this simulation: %w", err)
	}
	objects := maps.Clone(keys)
	delete(objects, ownKey)
	delete(objects, bootstrapKey(secret))
	c := &cluster{
		id: machine.HexID(8), secret: secret, agentSecret: was.AgentSecret, critical: was.Critical, net: n.sys.Config.Network, scale: n.sys.Scale,
		members: map[string]member{}, passwords: was.Passwords, bootstrap: map[string]bootstrapToken{}, applied: was.Applied, vip: was.VIP,
	}
	return c, &plane.SavedState{Objects: objects, Authority: authorityOf(files), Encryption: files["EncryptionConfig"].Content}, nil
}

// afterReset forgets the password of the restored server's own name, which may be another now
// (deleteNodePasswdSecret, pkg/cluster/managed.go).
func (n *node) afterReset() {
	v := n.sys.Root()
	if _, err := v.Stat(resetFlag); err != nil {
		return
	}
	_ = v.Remove(resetFlag)
	n.cluster.mu.Lock()
	delete(n.cluster.passwords, n.name)
	n.cluster.mu.Unlock()
}
