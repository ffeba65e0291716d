// Package nvidia knows NVIDIA's drivers on a node and its GPUs in a cluster.
//
// It follows a GPU from the slot to the workload:
//
//   - Which driver? [SelectDriverBranch] takes the PCI ids of a machine's GPUs and
//     answers with a [Driver] and the reason, in words. It knows which chips work
//     with which kernel modules and which branches NVIDIA still supports. Unless
//     something speaks against it, the answer is 580-server-open: the long-term
//     branch, with modules that Canonical has built and signed for every kernel of
//     Ubuntu 24.04, so that nothing is compiled at boot and Secure Boot may stay on.
//   - Is it there? [ObserveDriver] looks at a machine in one round trip, and
//     [Recipe.Diff] and [Toolkit.Diff] say what is missing, and why. The failures
//     that cost people days (a library newer than the loaded module, a toolkit that
//     came after K3s, modules that Secure Boot refuses) each have words for what to do.
//   - A [Recipe] says how it gets there: with modules that were built and signed
//     elsewhere, or with modules that DKMS builds on the machine, from the archive of
//     its distribution or NVIDIA's repository for it.
//   - [InstallDriver] and [InstallToolkit] bring it there, and hold it: a driver, or
//     the kernel under it, never changes by itself.
//   - [DevicePlugin] makes GPUs allocatable in Kubernetes.
//   - [VerifyObjects] is a Job that computes on every GPU of a node, and
//     [ParseVerify] reads what came of it.
//
// Names that others need too (the resource, the label, the taint, the runtime
// class) are declared here once: [Resource], [LabelPresent], [Taint],
// [Tolerations], [RuntimeClass]. Whatever should run on a node with GPUs takes its
// tolerations from here, including those of taints that a cluster adds.
//
// The table of GPUs is embedded. A GPU that is newer than the table gets the
// default driver and a warning, never a guess without one.
//
// What this package is not: it makes no API calls to Kubernetes and runs no
// virtual machines. It returns objects, and runs commands through a
// [github.com/cps-gpu/homelab/remote.Runner], however that reaches the machine.
package nvidia
