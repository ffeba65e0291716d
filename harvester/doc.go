// Package harvester makes virtual machines on Harvester, SUSE's hyperconverged infrastructure, whose machines are
// KubeVirt's VirtualMachines in a Kubernetes cluster.
//
// # Machines
//
// A [VMSpec] is what is wanted, a [VM] what was read, and [VMSpec.Diff] how they differ and what it takes to change
// that. [Client.Shape] makes or changes a machine: a Secret with its cloud-init documents, claims on its PCI devices,
// and the VirtualMachine, whose volumes Harvester makes. Every request may be the last one of a run that is killed;
// the next run continues.
//
// # Ownership
//
// Everything that this package makes has an annotation with the cluster and the machine that it is for, and no
// object without the right one is changed or removed, whatever its name is. A copy of a machine, made in
// Harvester's interface, has another name and so is not ours. Requests that change or remove name the object that
// was read, so that another one of the same name is safe.
//
// # Devices
//
// [Client.Devices] is the ledger of the PCI devices of all nodes: who has claimed which (a PCIDeviceClaim binds a device
// to vfio-pci, for the machine that asks first) and which machine has which. Kubernetes counts devices by their model on a node,
// so two machines with the same model on one node may swap their devices at a start; the ledger says what they have.
//
// # Host keys
//
// KubeVirt's API runs no commands in a guest. So a machine writes its public host keys to its serial console at
// every boot, by [HostKeyScript], and [Client.HostKeys] reads them from the console's log, which only the API
// server's users can. They are kept at the machine.
package harvester
