package pvesim

// firewall is a file of rules: the cluster's, a node's or a VM's. It is kept, and
// filters nothing.
type firewall struct {
	options map[string]string
	rules   []map[string]string
	aliases map[string]map[string]string
	sets    map[string]*ipset
	groups  map[string]*ruleGroup // of the cluster alone
}

type ipset struct {
	comment string
	members map[string]map[string]string // by CIDR
}

type ruleGroup struct {
	comment string
	rules   []map[string]string
}

// empty reports whether there is no file of it.
func (f *firewall) empty() bool {
	return len(f.options)+len(f.rules)+len(f.aliases)+len(f.sets)+len(f.groups) == 0
}
