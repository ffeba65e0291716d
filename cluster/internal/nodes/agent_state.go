package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

// slowBoot is how long a machine of this cluster runs before its agent is asked why the login
// fails. Most machines have booted by then; the others must not be disturbed earlier.
const slowBoot = time.Minute

// stateByAgent returns the state of a machine that accepts no login, as its guest agent
// reports it: its first boot goes on, is over, or has failed, which is an error. why is the
// error of the login. A look does not ask: it would hold up the host's other users.
func (ns *Nodes) stateByAgent(ctx context.Context, n spec.Node, why error) (guestState, error) {
	still := guestState{problem: bootStage(why)}
	if !n.OnProxmox() || ns.Proxmox == nil || errors.Is(why, proxmox.ErrAgentNotRunning) || !ns.Observation(n.Name).isWaiting() {
		return still, nil
	}
	host := ns.memory.Load().agents.forHost(n.Host)
	if !host.tryBegin() {
		return still, nil
	}
	vm, err := ns.Proxmox.VMs.Get(ctx, names.Tag(ns.Spec), n.Name)
	if err != nil || vm == nil || ns.Proxmox.Agents.Uptime(ctx, vm) < slowBoot {
		host.end()
		return still, nil
	}
	failed, done := ns.firstBootResult(ctx, n, vm)
	if failed != nil || done {
		host.end()
	}
	switch {
	case failed != nil:
		return guestState{}, converge.Permanent(fmt.Errorf("%w\n  and a login is not possible: %w", failed, why))
	case done:
		return guestState{problem: "its guest agent says that the first boot is over, but a login is not possible: " + printable.FirstLine(why.Error())}, nil
	}
	return still, nil
}

// firstBootResult asks a machine's guest agent for the result of its first boot, and runs nothing
// there. If the result is unknown, failed is nil and done is false.
func (ns *Nodes) firstBootResult(ctx context.Context, n spec.Node, vm *proxmox.VM) (failed error, done bool) {
	read := func(path string) ([]byte, error) {
		return run.WithAgentTimeout(ctx, func(ctx context.Context) ([]byte, error) { return ns.Proxmox.Agents.ReadFile(ctx, vm, path) })
	}
	out, err := read(cloudinit.ResultFile)
	if err != nil {
		return nil, false
	}
	status, err := cloudinit.ParseResult(out)
	if err != nil {
		return nil, false
	}
	if err := status.Err(); err != nil {
		log, _ := read(bootOutput)
		return fmt.Errorf("first boot of %s failed: %w%s", n.Name, err, commandOutput(string(log))), false
	}
	return nil, true
}

// commandOutput is the output of a first boot's failed commands, as an extra line of an error:
// cloud-init itself names only the failed module.
func commandOutput(output string) string {
	lines := slices.Collect(strings.Lines(output))
	if said := remote.FailureText(strings.Join(lines[max(0, len(lines)-causeLines):], "")); said != "" {
		return "\n  output of its commands: " + said
	}
	return ""
}

// causeLines is how many lines of a boot's output are searched for the cause.
const causeLines = 200
