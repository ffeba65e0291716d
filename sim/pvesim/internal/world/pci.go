package world

// Mapping is a PCI resource mapping of the cluster.
type Mapping struct {
	ID          string
	Description string
	Flags       map[string]bool // mdev and live-migration-capable, where they were said
	Entries     []string        // as given: node=…,path=…,id=…
}
