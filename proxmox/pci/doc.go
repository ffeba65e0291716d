// Package pci says which cards hosts have, which resource mappings name them, and which VMs
// claim them. It is pure: package proxmox reads what it needs (PCIClient.GPUs, PCIClient.Mappings,
// PCIClient.Ledger).
//
// A [GPU] is a card of a host, a [Mapping] the name by which a token may give devices to VMs
// ([Mapping.Diff]). A [Ledger] is who has a claim on which card, and [Ledger.Conflicts] what is
// promised more than once: Proxmox keeps no such book.
package pci
