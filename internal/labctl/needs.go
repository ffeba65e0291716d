package labctl

import "net/netip"

// Needs is what a cluster file needs of the lab. It is the standard input of `labd prepare`, as JSON.
type Needs struct {
	Name  string      `json:"name"` // of the cluster
	Hosts []HostNeeds `json:"hosts"`

	Templates       []string `json:"templates,omitempty"`       // names or VMIDs of existing ones
	TemplateStorage string   `json:"templateStorage,omitempty"` // of the first host

	Pools  []string `json:"pools,omitempty"`  // resource pools
	Groups []string `json:"groups,omitempty"` // security groups of the firewall

	// The network of the nodes, in which the hosts get addresses, and the addresses that are not for them.
	Network netip.Prefix `json:"network"`
	Gateway netip.Addr   `json:"gateway"`
	Bridge  string       `json:"bridge,omitempty"`
	Taken   []netip.Addr `json:"taken,omitempty"`

	Guests      Guests `json:"guests,omitzero"` // of real VMs without Image: the lab makes it
	GuestsPlace string `json:"guestsPlace,omitempty"`
}

// HostNeeds is what one host must have.
type HostNeeds struct {
	Name     string              `json:"name"`
	Cores    int                 `json:"cores"`              // of its largest node
	Memory   int64               `json:"memory"`             // of all its nodes, in bytes
	Bridges  map[string]bool     `json:"bridges,omitempty"`  // true where VLANs are used on it
	MTUs     map[string]int      `json:"mtus,omitempty"`     // the largest that nodes request, by bridge
	Storages map[string][]string `json:"storages,omitempty"` // contents by storage
	Cards    int                 `json:"cards"`
	Models   []Model             `json:"models,omitempty"`   // of cards, as requested by the nodes
	Slots    []string            `json:"slots,omitempty"`    // PCI addresses without function that nodes name
	Mappings []string            `json:"mappings,omitempty"` // existing ones, once for each card
	Devices  []string            `json:"devices,omitempty"`  // other devices: addresses, vendors and devices, and mappings
	USB      []string            `json:"usb,omitempty"`      // vendors and products, some with a blank and a port, and mappings

	Declared Declaration `json:"declared,omitzero"`
}

// Declaration is what a file says of a host, whatever its nodes need; zero: nothing.
type Declaration struct {
	Cores   int              `json:"cores,omitempty"`
	Memory  int64            `json:"memory,omitempty"` // in bytes
	GPUs    int              `json:"gpus,omitempty"`
	Storage map[string]int64 `json:"storage,omitempty"` // bytes by storage
}

// Model is a model of cards.
type Model struct {
	Asked string `json:"asked"`          // as nodes request it, e.g. "A100"
	Name  string `json:"name,omitempty"` // NVIDIA's name of a card that matches; empty: none is known
	ID    string `json:"id,omitempty"`   // its PCI ID, e.g. "10de:20f1"
}
