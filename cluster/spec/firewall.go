package spec

import (
	"fmt"
	"regexp"
	"slices"
)

// securityGroup is the name of a security group of Proxmox's firewall (security_group_name_pattern and
// $max_group_name_length in PVE/Firewall.pm), which Proxmox stores in lower case.
var securityGroup = regexp.MustCompile(`^[a-z][a-z0-9_-]{1,17}$`)

// CheckFirewall reports what is wrong with the security groups of a node.
func (n *Node) CheckFirewall(r interface {
	Wrong(place any, what, cure string)
}) {
	for i, group := range n.SecurityGroups {
		switch {
		case !securityGroup.MatchString(group):
			r.Wrong(&n.SecurityGroups[i], fmt.Sprintf("%q cannot be a security group's name", group), "write the name that Datacenter, Firewall, Security Group shows, e.g. k8s")
		case slices.Contains(n.SecurityGroups[:i], group):
			r.Wrong(&n.SecurityGroups[i], "the security group "+group+" is named twice", "remove one of the two")
		}
	}
	if len(n.SecurityGroups) > 0 && !n.Network.Firewall.IsOn() && !slices.ContainsFunc(n.Networks, func(c Card) bool { return c.Firewall.IsOn() }) {
		r.Wrong(&n.SecurityGroups, "security groups filter nothing: no network card is behind the firewall", "write network: {firewall: true}, or firewall: true below networks")
	}
}

// SecurityGroups returns the security groups of Proxmox's firewall that the machines name, sorted.
func (s *Spec) SecurityGroups() []string {
	var out []string
	for _, n := range s.Machines() {
		if n.OnProxmox() {
			out = append(out, n.SecurityGroups...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
