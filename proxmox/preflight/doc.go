// Package preflight says whether Proxmox VE hosts can carry what is asked of them,
// before anything changes.
//
// Proxmox accepts most mistakes when they are made and refuses them when a machine
// starts: a card that two VMs have, a mapping of hardware that was moved, memory that
// the host does not have. Each costs an evening then, and is one line here.
//
// [Check] takes a [Requirements] (hosts, machines with their disks, networks and GPUs, what a
// token must be allowed to do) and returns a [Report]: for each of some twenty checks
// whether it holds, and for each problem a [Finding] with evidence and cure. It reads
// and changes nothing. All that is read is read at once, each list once; the checks
// themselves are pure.
//
// A check that cannot look, since a privilege is missing or there is no way to log in
// to the host, is [Skipped] with the reason, and never passes for one that holds.
//
// IDs such as PX3 are those of the project's collection of failures that people really
// met; docs/host-check.md describes every check by its id. What the package knows of
// Proxmox was read in its source; each check names the file.
//
// It knows nothing of clusters or their files: anyone who makes VMs with GPUs may use it.
package preflight
