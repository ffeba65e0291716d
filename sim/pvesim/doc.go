// Package pvesim is a Proxmox VE cluster that fits in a test.
//
// A [Model] is hardware as data: hosts with their CPUs, memory, NUMA nodes, PCI
// devices and IOMMU groups, storages and bridges, users and tokens, and the
// machines of other people. [New] brings it to life, [Sim.Client] talks to it in
// process, and [Sim.Handler] serves it to anybody who speaks HTTP. [EightA100],
// [OneGPU] and [TwoHosts] are models to begin with; a test changes a copy.
//
// # What is true
//
// What a client sees is meant to be what Proxmox VE 9 would show it. Parameters
// are checked against Proxmox's own schema, with its words. Privileges are looked
// up on ACL paths, and only literal root@pam is root. Tasks have UPIDs, logs,
// durations, and fail under HTTP 200. Files are locked as long as work takes, and
// who waits too long gets "got timeout": one allocation at a time on a storage
// that is not shared, clones of a template side by side, a configuration by itself.
// A mapping may be written that does not fit the hardware; the start says so.
// A change of several options that fails is half done. A running machine keeps
// changes pending. A start takes as long as the memory that it pins, and can be too
// late. docs/simulator.md tells how all this is held against the real thing, and
// where it differs.
//
// Machines that boot a disk image are alive: package guest reads their seed, an ISO
// or Proxmox's own cloud-init drive, and answers over SSH (through [Sim.Network])
// and through the guest agent.
//
// # Time
//
// The only clock is that of package time. Within testing/synctest, where New is
// called inside the bubble, virtual minutes pass in milliseconds; outside of it
// [Options].Speed makes the simulated world run faster than life.
//
// # What goes wrong
//
// [Sim.Fail] puts a [Rule] in force: which requests, the how-manieth, and what
// happens to them. An answer can be refused, replaced, delayed, or dropped before
// or after its effect; a task can fail, warn or hang; a guest can be born sick.
// [Sim.Requests] tells what was asked, without its secrets, and [Sim.VMs] and
// [Sim.Volumes] what is there, anyone who may see it.
//
// # What it is not
//
// There are no backups, containers, and no SDN beyond its bridges; behind the tickets
// of consoles is not a screen. Rules of firewalls are verified and filter nothing, HA
// starts and stops and moves nothing, a migration copies disks and no memory. Figures such as CPU load are
// made up. A method of Proxmox's that is not simulated refuses what Proxmox refuses,
// and then answers 501; [Methods] lists those that are.
//
// # Where things are
//
// Here are the door and the routes; the rest is below internal. world holds what there
// is, schema says what a parameter may be, and access who may do what. Above them each
// domain answers for its part of the API, and lists its methods in a function Endpoints:
// nodes, storages, pci, config (a machine's options and drives), running (its start, stop
// and guest agent), guests (making, copying, moving and destroying machines), firewall,
// sdn, consoles and clusterwide. hostshell is root's shell on a node.
package pvesim
