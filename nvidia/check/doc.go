// Package check judges GPUs and what Kubernetes makes of them, for a verification that one can
// show to others.
//
// [VerifyObjects] is a Job that computes on every GPU of a node, and [ParseVerify] reads its result.
// A [Check] is one judgement about a node or one of its GPUs. [Facts] makes them from what
// nvidia-smi reports. Others need a Job of their own: [OverRequestObjects] asks for one GPU more than a node has, which
// must not be granted, and [ReloadObjects] holds a GPU while systemd reloads its units, after which
// containers without CDI lose their devices ("Failed to initialize NVML: Unknown Error").
// [JUnit] writes checks for a CI system.
package check
