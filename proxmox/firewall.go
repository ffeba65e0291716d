package proxmox

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// Firewall is what an owner's security groups are in a VM's firewall.
type Firewall struct {
	Enabled bool     // rules filter what passes the cards that are behind the firewall
	Groups  []string // of the owner's rules, in the order in which they apply; "-web" is one that somebody disabled
	rules   []firewallRule
}

// firewallRule is one rule. Who made it is in its comment: rules have no other name.
type firewallRule struct {
	Pos     int    `json:"pos"`
	Type    string `json:"type"`
	Action  string `json:"action"` // of type group: the group
	Enable  int    `json:"enable"`
	Comment string `json:"comment"`
	Digest  string `json:"digest"` // of all rules
}

// Groups returns the security groups of the datacenter. Everybody may see their names.
func (c *FirewallClient) Groups(ctx context.Context) ([]string, error) {
	var all []struct {
		Group string `json:"group"`
	}
	err := c.pve.Get(ctx, "/cluster/firewall/groups", nil, &all)
	out := make([]string, len(all))
	for i, g := range all {
		out[i] = g.Group
	}
	return out, err
}

// Get returns what the VM's owner has set in its firewall.
func (c *FirewallClient) Get(ctx context.Context, vm *VM) (Firewall, error) {
	var options struct {
		Enable int `json:"enable"`
	}
	if err := c.pve.Get(ctx, firewallPath(vm, "options"), nil, &options); err != nil {
		return Firewall{}, err
	}
	f := Firewall{Enabled: options.Enable != 0}
	var all []firewallRule
	if err := c.pve.Get(ctx, firewallPath(vm, "rules"), nil, &all); err != nil {
		return Firewall{}, err
	}
	for _, r := range all {
		if r.Type != "group" || r.Comment != vm.Owner {
			continue
		}
		f.rules = append(f.rules, r)
		if r.Enable == 0 {
			r.Action = "-" + r.Action
		}
		f.Groups = append(f.Groups, r.Action)
	}
	return f, nil
}

// Diff says how f differs from a firewall that is on, with these groups; without groups it may be off.
func (f Firewall) Diff(groups []string) converge.Diff {
	var d converge.Diff
	if !slices.Equal(f.Groups, groups) {
		d = append(d, converge.Field{Path: "security groups", Have: strings.Join(f.Groups, ", "), Want: strings.Join(groups, ", "), Effect: converge.Update})
	}
	if len(groups) > 0 && !f.Enabled {
		d = append(d, converge.Field{Path: "firewall", Have: "off", Want: "on", Effect: converge.Update})
	}
	return d
}

// Set makes the security groups the first rules of a VM's firewall, in their order, removes those
// that its owner set earlier, and switches the firewall on. Rules of others stay. At no moment does a group
// lack that was there and stays: Proxmox inserts a new rule before all others (PVE/API2/Firewall/Rules.pm).
func (c *FirewallClient) Set(ctx context.Context, vm *VM, groups []string) error {
	have, err := c.Get(ctx, vm)
	if err != nil {
		return err
	}
	if !slices.Equal(have.Groups, groups) {
		for _, group := range slices.Backward(groups) {
			converge.Progressf(ctx, "adding the security group %s to %s", group, vm)
			rule := api.Params{"type": "group", "action": group, "enable": 1, "comment": vm.Owner}
			if err := c.pve.Call(ctx, http.MethodPost, firewallPath(vm, "rules"), rule, nil); err != nil {
				return err
			}
		}
		if err := c.removeRules(ctx, vm, len(groups)); err != nil {
			return err
		}
	}
	if len(groups) == 0 || have.Enabled {
		return nil
	}
	return c.pve.Call(ctx, http.MethodPut, firewallPath(vm, "options"), api.Params{"enable": 1}, nil)
}

// removeRules removes all of the owner's rules but the first.
func (c *FirewallClient) removeRules(ctx context.Context, vm *VM, keep int) error {
	for {
		have, err := c.Get(ctx, vm)
		if err != nil || len(have.rules) <= keep {
			return err
		}
		last := have.rules[len(have.rules)-1] // the digest says whether it is still at this place
		path := fmt.Sprintf("%s/%d", firewallPath(vm, "rules"), last.Pos)
		if err := c.pve.Call(ctx, http.MethodDelete, path, api.Params{"digest": last.Digest}, nil); err != nil {
			return err
		}
	}
}

func firewallPath(vm *VM, what string) string {
	return api.VMPath(vm.Host, vm.VMID, "firewall") + "/" + what
}
