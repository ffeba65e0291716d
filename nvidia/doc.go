// Package nvidia handles NVIDIA's drivers on a node, and knows its cards.
//
// It follows a GPU from the slot to the workload:
//
//   - Which driver? [SelectDriverBranch] takes the PCI ids of a machine's GPUs and answers
//     with a [Driver] and the reason, in words. It knows which chips work with which kernel
//     modules and which branches NVIDIA still supports. The usual answer is 580-server-open:
//     the long-term branch, with modules that Canonical has built and signed for every kernel
//     of Ubuntu 24.04, so that nothing is compiled at boot and Secure Boot may stay on.
//   - Is it installed? [ObserveDriver] reads a machine's state in one round trip, and
//     [Recipe.Diff] and [Toolkit.Diff] say what is missing, and why. For failures that are
//     hard to find (a library newer than the loaded module, a toolkit that was installed after
//     K3s, modules that Secure Boot refuses) they also say what to do.
//   - A [Recipe] says how to install it: with prebuilt, signed modules, or with modules that
//     DKMS builds on the machine, from the archive of its distribution or NVIDIA's repository
//     for it.
//   - [InstallDriver] and [InstallToolkit] install it and hold its packages, so that neither
//     the driver nor its kernel is upgraded by itself.
//
// In Kubernetes, [github.com/cps-gpu/homelab/kube/addon.DevicePlugin] makes GPUs allocatable, and
// [github.com/cps-gpu/homelab/nvidia/check.VerifyObjects] is a Job that computes on every GPU of a
// node. Names that they and others need (the resource, the label, the taint, the runtime class) are
// declared here once: [Resource], [LabelPresent], [TaintKey], [RuntimeClass].
//
// The table of GPUs is embedded. A GPU that is newer than the table gets the default driver,
// always with a warning.
//
// This package knows no types of Kubernetes and runs no virtual machines. It runs commands through
// a [github.com/cps-gpu/homelab/remote.Runner], however that reaches the machine.
package nvidia
