package pvesim

// mapping is a PCI resource mapping of the cluster.
type mapping struct {
	id          string
	description string
	flags       map[string]bool // mdev and live-migration-capable, where they were said
	entries     []string        // as given: node=…,path=…,id=…
}
