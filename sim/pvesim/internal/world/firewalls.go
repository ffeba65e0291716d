package world

// Firewall is a file of rules: the cluster's, a node's or a VM's. It is kept, and
// filters nothing.
type Firewall struct {
	Options map[string]string
	Rules   []map[string]string
	Aliases map[string]map[string]string
	Sets    map[string]*IPSet
	Groups  map[string]*RuleGroup // of the cluster alone
}

// IPSet is a set of addresses, by their CIDRs.
type IPSet struct {
	Comment string
	Members map[string]map[string]string // by CIDR
}

// RuleGroup is a security group.
type RuleGroup struct {
	Comment string
	Rules   []map[string]string
}

// Empty reports whether there is no file of it.
func (f *Firewall) Empty() bool {
	return len(f.Options)+len(f.Rules)+len(f.Aliases)+len(f.Sets)+len(f.Groups) == 0
}
