package live

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Resource is a VM as all hosts of a cluster see it, merged from two lists.
//
// GET /cluster/resources?type=vm is up to date about which VMs exist, with their tags, locks and
// pools. Names, status, figures and whether a VM is a template come from the last round of the
// host's pvestatd, up to 11 s ago. pmxcfs keeps them for five minutes, even if the VM is gone: a
// reused VMID has the new tags and the old name until the next round. (rrd_dump and
// extract_vm_stats in PVE/API2Tools.pm.)
//
// GET /nodes/HOST/qemu reads the configurations, so those values come from there.
type Resource struct {
	Type     string    `json:"type"`
	VMID     wire.Int  `json:"vmid"`
	Name     string    `json:"name"`
	Node     string    `json:"node"`
	Status   string    `json:"status"`
	Tags     string    `json:"tags"`
	Lock     string    `json:"lock"`
	Pool     string    `json:"pool"` // empty also without Pool.Audit on it
	Template wire.Bool `json:"template"`
	MaxMem   wire.Int  `json:"maxmem"`
	Mem      wire.Int  `json:"mem"`
	MaxCPU   wire.Int  `json:"maxcpu"`
	CPUs     wire.Int  `json:"cpus"`   // MaxCPU in the cluster's list
	Uptime   wire.Int  `json:"uptime"` // seconds
	NetOut   wire.Int  `json:"netout"` // bytes that the guest has sent since its start

	HostErr error // why its host could not be asked; then the values may be stale
}

// List returns all VMs that the token may see, as they are now. It makes one request and one for
// each host with VMs; concurrent callers share them.
func List(ctx context.Context, c *api.Client) ([]Resource, error) {
	return api.DoShared(ctx, c, "/cluster/resources, live", func() ([]Resource, error) {
		var all []Resource
		if err := c.Get(ctx, "/cluster/resources", url.Values{"type": {"vm"}}, &all); err != nil {
			return nil, err
		}
		hosts := map[string]map[int]Resource{}
		for _, r := range all {
			if r.Type == "qemu" {
				hosts[r.Node] = nil
			}
		}
		unseen, err := queryHosts(ctx, c, hosts)
		if err != nil {
			return nil, err
		}
		for i := range all {
			r := &all[i]
			if r.Type != "qemu" {
				continue
			}
			if r.HostErr = unseen[r.Node]; r.HostErr == nil {
				now := hosts[r.Node][int(r.VMID)] // empty if it was made or destroyed between the two requests
				r.Name, r.Status, r.Template, r.MaxMem, r.Mem, r.MaxCPU = now.Name, now.Status, now.Template, now.MaxMem, now.Mem, now.CPUs
			}
		}
		return all, nil
	})
}

// ListHost returns the VMs of a host from the host's own list, with their figures. It makes one
// request, which concurrent callers share.
func ListHost(ctx context.Context, c *api.Client, host string) ([]Resource, error) {
	return api.GetShared[[]Resource](ctx, c, api.NodePath(host, "qemu"), nil)
}

// queryHosts adds each host's VMs, by VMID, and returns the errors of hosts that could not be asked.
func queryHosts(ctx context.Context, c *api.Client, hosts map[string]map[int]Resource) (unseen map[string]error, err error) {
	unseen = map[string]error{}
	if len(hosts) > 1 { // a request to a host that is off takes until the network times out
		all, err := Nodes(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, n := range all {
			if n.Status == "offline" {
				unseen[n.Node] = errors.New("it is offline")
			}
		}
	}
	var names []string
	for host := range hosts {
		if unseen[host] == nil {
			names = append(names, host)
		}
	}
	lists, failures := make([][]Resource, len(names)), make([]error, len(names))
	var group errgroup.Group
	group.SetLimit(MaxConcurrent)
	for i, host := range names {
		group.Go(func() error {
			lists[i], failures[i] = ListHost(ctx, c, host)
			return nil
		})
	}
	_ = group.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for i, host := range names {
		if err := failures[i]; api.Forbidden(err) || errors.Is(err, api.ErrUnauthorized) { // it has answered
			return nil, err
		}
		if failures[i] != nil {
			unseen[host] = failures[i]
			continue
		}
		hosts[host] = make(map[int]Resource, len(lists[i]))
		for _, r := range lists[i] {
			hosts[host][int(r.VMID)] = r
		}
	}
	return unseen, nil
}

// CheckFresh returns an error if the VM's host could not be asked, so that the values may be stale.
func (r Resource) CheckFresh() error {
	if r.HostErr == nil {
		return nil
	}
	return fmt.Errorf("proxmox: VM %d cannot be identified: its host %s does not answer: %w", r.VMID, r.Node, r.HostErr)
}

// IsUnnamed reports whether r is so new that it has no name. A clone gets its name with its first
// disk; until then Proxmox generates one.
func IsUnnamed(r Resource) bool {
	made, up := strings.CutPrefix(r.Name, "VM ")
	return r.Name == "" || up && made == strconv.Itoa(int(r.VMID))
}

// Node is an entry of GET /nodes.
type Node struct {
	Node   string   `json:"node"`
	Status string   `json:"status"` // online, offline; unknown in a host's first seconds
	MaxCPU wire.Int `json:"maxcpu"`
	MaxMem wire.Int `json:"maxmem"`
	Mem    wire.Int `json:"mem"`
}

// Nodes returns all hosts.
func Nodes(ctx context.Context, c *api.Client) ([]Node, error) {
	return api.GetShared[[]Node](ctx, c, "/nodes", nil)
}

// MaxConcurrent bounds how many VMs are read concurrently.
const MaxConcurrent = 8
