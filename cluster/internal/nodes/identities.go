package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// machineIDFile identifies a machine to systemd, and to DHCP clients through it.
const machineIDFile = "/etc/machine-id"

// identities finds machines with the same identity, which come from an unsealed template.
type identities struct {
	mu    sync.Mutex
	nodes map[string]identity // by node name
}

// identity is what must be unique to a machine.
type identity struct{ machineID, hostKey string }

// addNode records a node's identity, and returns an error if another node has the same.
func (t *identities) addNode(node string, id identity) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes == nil {
		t.nodes = map[string]identity{}
	}
	for other, theirs := range t.nodes {
		first, second := min(node, other), max(node, other)
		switch {
		case other == node:
		case id.machineID != "" && id.machineID == theirs.machineID:
			return fmt.Errorf("%s and %s have the same machine-id, %s: DHCP servers and logs treat them as one machine. Their template was not sealed\n"+
				"  on one of them run: sudo rm -f /etc/machine-id /var/lib/dbus/machine-id && sudo systemd-machine-id-setup && sudo reboot\n"+
				"  and empty /etc/machine-id in the template (virt-sysprep does), or remove image.template, and cluster:up bakes one", first, second, id.machineID)
		case id.hostKey != "" && id.hostKey == theirs.hostKey:
			return fmt.Errorf("%s and %s have the same SSH host key: each can impersonate the other. Their template was not sealed\n"+
				"  on one of them run: sudo rm /etc/ssh/ssh_host_* && sudo ssh-keygen -A && sudo systemctl restart ssh\n"+
				"  and remove /etc/ssh/ssh_host_* from the template, or remove image.template, and cluster:up bakes one", first, second)
		}
	}
	t.nodes[node] = id
	return nil
}

func (t *identities) isKnown(node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.nodes[node]
	return known
}

// checkIdentity returns an error if a booted node has the identity of another.
func (ns *Nodes) checkIdentity(ctx context.Context, n spec.Node) error {
	if n.External || ns.memory.Load().identities.isKnown(n.Name) {
		return nil
	}
	g := ns.guests[n.Name]
	id, err := remote.ReadFile(ctx, g.ssh, machineIDFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := ns.storedHostKey(g)
	if err != nil {
		return err
	}
	return converge.Permanent(ns.memory.Load().identities.addNode(n.Name, identity{strings.TrimSpace(string(id)), key}))
}

// storedHostKey is the stored host key of a guest, "" for none.
func (ns *Nodes) storedHostKey(g *guest) (string, error) {
	keys, err := ns.Hosts.Lookup(g.addr)
	if err != nil || len(keys) == 0 {
		return "", err
	}
	return ssh.AuthorizedKey(keys[0]), nil
}
