// Package proxmox is the part of Proxmox VE that a cluster needs, made safe.
//
// [Dial] makes a [Client] from an address and an API token. With it one finds and
// shapes VMs by name and tag ([VMClient.Get], [VMClient.Shape], [VMClient.Remove]), makes
// the template that they are cloned from ([StorageClient.Fetch], [VMClient.Create],
// [TemplateClient.Convert]), hands GPUs to them ([PCIClient.GPUs], [PCIClient.EnsureMapping],
// [AttachGPU]), uploads their first-boot ISO ([StorageClient.Upload]) and runs
// commands in them through the guest agent ([AgentClient.Runner]).
//
// # Three nouns
//
// A [VMSpec] says what a VM should be, a [VM] is what was seen, and
// [VMSpec.Diff] is pure and says what lies between, and what each difference
// costs: a change in place, a restart, another VM. Shape does what Diff says and
// nothing else, so it may be called again after any failure: what is there
// already is not done twice. A new VM costs four requests that change something
// (clone, configure, grow, start).
//
// # Where things are
//
//   - Which cards there are, what mappings name them, who claims them: package pci.
//   - Whether hosts can carry what is asked of them: package preflight. What root does once on a host: package host.
//   - Requests, tasks, errors and what to do about them: internal/api. How guests are asked through
//     their agents: internal/agent. What is on the hosts now: internal/live.
//   - Here: what a VM is and should be, and the requests that make it so.
//
// # Whose VM it is
//
// A VM is ours by two tags: the owner's, and a mark that names the VMID and the first
// digits of the SMBIOS UUID (homelab-a100_104_1b9d6bcd). Proxmox copies tags when it
// clones or restores, so the owner's tag alone proves nothing; the mark fits no copy.
// A VM that has the name of one of ours and is not ours is somebody else's: it is not
// changed, not removed, and making one beside it is a [ConflictError]. What carries the
// tag and is not ours is listed by [VMClient.Strays]. Between its clone and its
// configuration a VM carries its mark in its description, with its VMID, so one that a
// crash left half-made is recognised and completed.
//
// # What Proxmox does not promise
//
// Several habits of Proxmox are handled here so that callers need not know them:
//
//   - A task that fails, fails under HTTP 200. Every task is waited for, all those
//     of a node with one request; "WARNINGS: 1" is a success, anything else but OK a
//     [Error] with the end of its log.
//   - Errors are 500 with a text. [Error] carries the text, the privilege that is
//     missing and the command that grants it. Only GETs are ever sent twice; after
//     anything else whose outcome is not known, we look, and then decide.
//   - Locks are short and fail rather than queue. Clones are made from templates
//     only, six at a time, with one full copy per storage at a time.
//   - In the list of all VMs, names, states and templates are up to eleven seconds old,
//     and a VMID that is used again has the name of the VM before it: each host is asked
//     itself.
//   - A configuration is checked when the VM starts, not when it is set. Mappings and
//     machine types are checked here before.
//
// # What it is not
//
// It is not a general client: there are no containers, backups, pools, users or
// firewalls. A request for which there is no method here goes through [Client.Get],
// [Client.Call] and [Client.Do].
//
// Nothing here needs SSH to the host or a password. What only root@pam may do
// (IOMMU, vfio, the token itself) is not done here.
package proxmox
