package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/spec"
)

// machineIDFile is what systemd, and DHCP clients after it, know a machine by.
const machineIDFile = "/etc/machine-id"

// twins finds machines that take each other's identity, since the template that they
// were cloned from had one.
type twins struct {
	mu    sync.Mutex
	nodes map[string]identity // by node name
}

// identity is what no two machines may share.
type identity struct{ machineID, hostKey string }

// meet notes who a node is, unless another one is the same: that is an error.
func (t *twins) meet(node string, id identity) error {
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

func (t *twins) known(node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.nodes[node]
	return known
}

// unlike returns an error when a node that has booted is the double of another.
func (c *Cluster) unlike(ctx context.Context, n spec.Node) error {
	if n.External || c.visit(ctx).twins.known(n.Name) {
		return nil
	}
	g := c.guests[n.Name]
	id, err := remote.ReadFile(ctx, g.ssh, machineIDFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := g.hostKey(c)
	if err != nil {
		return err
	}
	return converge.Permanent(c.visit(ctx).twins.meet(n.Name, identity{strings.TrimSpace(string(id)), key}))
}

// hostKey is the key that the guest has shown, "" when none is kept.
func (g *guest) hostKey(c *Cluster) (string, error) {
	keys, err := c.hosts.Lookup(g.addr)
	if err != nil || len(keys) == 0 {
		return "", err
	}
	return ssh.AuthorizedKey(keys[0]), nil
}
