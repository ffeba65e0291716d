package benches

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/bench"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/remote"
)

func (b *Benches) id(k bench.Kind, node string) string {
	if node == everyNode {
		return string(k)
	}
	return string(k) + "/" + node
}

// plan remembers that a step is to come, and what is said of it if it is not reached.
func (b *Benches) plan(k bench.Kind, node string) string {
	id := b.id(k, node)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.order, id) {
		b.order = append(b.order, id)
	}
	b.of[id] = skippedCheck(k, node, "no result: its step failed, or one before it, or the run was ended")
	return id
}

func (b *Benches) note(id string, checks ...check.Check) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checks[id] = checks
}

// Checks are those of all steps, also of those that were not reached.
func (b *Benches) Checks() []check.Check {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []check.Check
	for _, id := range b.order {
		if checks, ok := b.checks[id]; ok {
			out = append(out, checks...)
		} else {
			out = append(out, b.of[id])
		}
	}
	return out
}

// Clean removes what this run has created.
func (b *Benches) Clean(ctx context.Context) error {
	b.mu.Lock()
	jobs := slices.Clone(b.jobs)
	b.mu.Unlock()
	if len(jobs) == 0 {
		return nil
	}
	client, err := b.Kube(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, objects := range jobs {
		errs = append(errs, client.Delete(ctx, objects...))
	}
	return errors.Join(errs...)
}

// leftovers are the Jobs and Services of other runs, and their pods, which hold GPUs until they are
// gone; running is a Job of them that has not ended.
func (b *Benches) leftovers(ctx context.Context) (objects []runtime.Object, names []string, running string, err error) {
	client, err := b.Kube(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	for _, kind := range [][2]string{{"batch/v1", "Job"}, {"v1", "Service"}, {"v1", "Pod"}} {
		found, err := client.List(ctx, kind[0], kind[1], b.namespace(), bench.Selector())
		if err != nil {
			return nil, nil, "", err
		}
		for i := range found {
			objects = append(objects, &found[i])
			names = append(names, strings.ToLower(kind[1])+" "+b.namespace()+"/"+found[i].GetName())
			if kind[1] != "Job" {
				continue
			}
			job, err := client.JobState(ctx, b.namespace(), found[i].GetName())
			if err != nil {
				return nil, nil, "", err
			}
			if !job.Ended() && job.Phase != kube.JobMissing {
				running = found[i].GetName()
			}
		}
	}
	return objects, names, running, nil
}

// machine is what is known of a node while it is measured.
type machine struct {
	bench.Machine
	node    spec.Node
	gpus    int           // that its Job asked for
	used    []check.Check // about those that others have
	nothing bool          // there was nothing to measure
	log     []nvidia.LogFinding
	waits   waitReason
}

// recordBefore notes what is known of a node. If nobody can log in, limits are lower and some faults are
// not seen.
func (m *machine) recordBefore(ctx context.Context, root remote.Runner) {
	m.Before, m.log = state(ctx, root)
	m.Topology, _ = nvidia.ReadTopology(ctx, root)
}

// recordAfter notes what has changed.
func (m *machine) recordAfter(ctx context.Context, root remote.Runner) {
	now, log := state(ctx, root)
	m.After, m.Faults = now, nil
	for _, f := range log {
		same := func(old nvidia.LogFinding) bool {
			return old.Xid == f.Xid && old.GPU == f.GPU && old.Means == f.Means && old.Count == f.Count
		}
		if !slices.ContainsFunc(m.log, same) {
			m.Faults = append(m.Faults, f)
		}
	}
}

func state(ctx context.Context, root remote.Runner) ([]nvidia.SMIGPU, []nvidia.LogFinding) {
	var gpus []nvidia.SMIGPU
	if s, err := nvidia.ObserveDriver(ctx, root); err == nil {
		gpus = s.GPUs()
	}
	log, _ := nvidia.ReadLog(ctx, root)
	return gpus, log
}

// speed is that of a machine's fastest network card, in Mbit/s; 0: unknown, as of a VM's.
func speed(ctx context.Context, root remote.Runner) int {
	out, err := remote.Output(ctx, root, "sh", "-c", "cat /sys/class/net/e*/speed 2>/dev/null || true")
	if err != nil {
		return 0
	}
	most := 0
	for _, word := range strings.Fields(string(out)) {
		if n, err := strconv.Atoi(word); err == nil {
			most = max(most, n)
		}
	}
	return most
}
