// Package mig divides GPUs into instances (NVIDIA's Multi-Instance GPU).
//
// It knows which profiles each chip has and which of them fit side by side: [CheckFit] and
// [Chip.Place] are pure. On a machine, [Observe] reads how its GPUs are divided, [State.Diff]
// compares that with a list of [Layout], and [Install], [Switch] and [Divide] make it so.
//
// Instances never survive a restart, and from Hopper on neither does the mode. So [Install]
// leaves a service of systemd on the machine that divides its GPUs at every boot, before K3s
// starts there.
package mig
