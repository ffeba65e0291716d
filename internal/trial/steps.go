package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/preflight"
)

// step is one step of a trial.
type step struct {
	name string
	what func(node string) string
	// change changes the file from this step on; nil: no change. Node i is the agent that is
	// changed.
	change func(nodes []spec.Node, i int) []spec.Node
	// do runs the step, and returns its result; nil for a step that only plans.
	do func(context.Context, World, *cluster.Cluster) (string, error)
	// graph is planned after the step, and expects checks the plan.
	graph   func(context.Context, *cluster.Cluster) (*converge.Graph, error)
	expects func(*converge.Plan) error
}

// steps are all steps, in order.
func steps() []step {
	return []step{
		{name: "check", what: constant("check that the hosts can run it, and that nothing of it exists yet"),
			do: check, graph: up, expects: expectChanges},
		{name: "plan", what: constant("plan what would be created"), graph: up, expects: expectChanges},
		{name: "up", what: constant("create it, from nothing to Ready nodes"), do: run, graph: up, expects: expectEmpty},
		{name: "again", what: constant("run it again: nothing changes"), do: repeatRun, graph: up, expects: expectEmpty},
		{name: "memory", what: formatNode("give %s more memory"), change: moreMemory, do: run, graph: up, expects: expectEmpty},
		{name: "disk", what: formatNode("give %s a data disk"), change: addDisk, do: run, graph: up, expects: expectEmpty},
		{name: "grow", what: formatNode("grow the disk of %s"), change: growDisk, do: run, graph: up, expects: expectEmpty},
		{name: "remove", what: formatNode("remove %s from the file, and so destroy it"), change: removeNode, do: run, graph: up,
			expects: expectEmpty},
		{name: "down", what: constant("destroy everything: nothing is left"), do: takeDown, graph: down, expects: expectEmpty},
	}
}

func constant(words string) func(string) string { return func(string) string { return words } }

func formatNode(format string) func(string) string {
	return func(node string) string { return fmt.Sprintf(format, node) }
}

// The disk that an agent gets. It is small, because it is created on the storage from which
// the agent boots.
const (
	diskName  = "homelab-trial"
	diskMount = "/var/lib/homelab-trial"
	diskSize  = spec.GiB
)

// moreMemory adds only a little, because the host must have it. A whole number of GiB stays
// one.
func moreMemory(nodes []spec.Node, i int) []spec.Node {
	more := 256 * spec.MiB
	if m := nodes[i].Memory; m >= 4*spec.GiB && m%spec.GiB == 0 {
		more = spec.GiB
	}
	nodes[i].Memory += more
	return nodes
}

func addDisk(nodes []spec.Node, i int) []spec.Node {
	disk := spec.Disk{DiskOptions: nodes[i].OSDisk.DiskOptions, Name: diskName, Role: spec.RoleData, FS: "ext4", Mount: diskMount}
	disk.Size = diskSize
	nodes[i].Disks = append(slices.Clip(nodes[i].Disks), disk)
	return nodes
}

func growDisk(nodes []spec.Node, i int) []spec.Node {
	disks := slices.Clone(nodes[i].Disks)
	disks[len(disks)-1].Size = 2 * diskSize
	nodes[i].Disks = disks
	return nodes
}

func removeNode(nodes []spec.Node, i int) []spec.Node { return slices.Delete(nodes, i, i+1) }

func up(_ context.Context, c *cluster.Cluster) (*converge.Graph, error) { return c.Up(), nil }

func down(ctx context.Context, c *cluster.Cluster) (*converge.Graph, error) { return c.Down(ctx) }

// check refuses to start if something of the cluster exists: it would be destroyed at the end,
// and somebody may still need it.
func check(ctx context.Context, w World, c *cluster.Cluster) (string, error) {
	graph, err := c.Down(ctx)
	if err != nil {
		return "", err
	}
	plan, err := w.Plan(ctx, graph)
	if err != nil {
		return "", err
	}
	if err := plan.Err(); err != nil {
		return "", err
	}
	if plan.Changes() {
		return "", fmt.Errorf("something of %s exists already: %s", c.Spec().Name, strings.Join(differences(plan), ", "))
	}
	report, err := c.HostCheck(ctx, nil)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d checks, %d warnings", report.Checks, len(report.WithVerdict(preflight.Warning))), report.Err()
}

func run(ctx context.Context, w World, c *cluster.Cluster) (string, error) {
	report, err := w.Run(ctx, c.Up(), nil)
	return reportWords(report), err
}

// repeatRun describes what it changed and why, because that can no longer be inspected.
func repeatRun(ctx context.Context, w World, c *cluster.Cluster) (string, error) {
	var changed []string
	told := map[string]bool{}
	report, err := w.Run(ctx, c.Up(), func(e converge.Event) {
		if (e.Kind == converge.Acting || e.Kind == converge.Waiting) && !told[e.Step] {
			told[e.Step] = true
			changed = append(changed, e.Step+" ("+e.Diff.String()+")")
		}
	})
	if err == nil && report.Count(converge.Changed) > 0 {
		err = fmt.Errorf("a second run found something to do: %s", strings.Join(changed, ", "))
	}
	return reportWords(report), err
}

func takeDown(ctx context.Context, w World, c *cluster.Cluster) (string, error) {
	graph, err := c.Down(ctx)
	if err != nil {
		return "", err
	}
	report, err := w.Run(ctx, graph, nil)
	return reportWords(report), err
}

// expectChanges expects a plan that would create something.
func expectChanges(plan *converge.Plan) error {
	if !plan.Changes() {
		return errors.New("there is nothing to create, and nothing was created yet")
	}
	return nil
}

// expectEmpty expects an empty plan.
func expectEmpty(plan *converge.Plan) error {
	if plan.Changes() {
		return fmt.Errorf("the plan after it is not empty: %s", strings.Join(differences(plan), ", "))
	}
	return nil
}

// differences are the changes and waits of a plan.
func differences(plan *converge.Plan) []string {
	var out []string
	for _, it := range plan.Items {
		switch it.Verdict {
		case converge.Change, converge.Wait:
			out = append(out, it.Step+" ("+it.Diff.String()+")")
		case converge.Deferred:
			out = append(out, it.Step+" ("+it.Reason+")")
		}
	}
	return out
}

func planWords(plan *converge.Plan) string {
	count := map[converge.Verdict]int{}
	for _, it := range plan.Items {
		count[it.Verdict]++
	}
	words := fmt.Sprintf("%d to change, %d to check after that, %d up to date",
		count[converge.Change]+count[converge.Wait], count[converge.Deferred], count[converge.Clean])
	switch {
	case count[converge.Failed] > 0:
		return fmt.Sprintf("%s, %d could not be checked", words, count[converge.Failed])
	case !plan.Changes():
		return fmt.Sprintf("nothing: %d up to date", count[converge.Clean])
	}
	return words
}

func reportWords(r *converge.Report) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d changed, %d had nothing to do", r.Count(converge.Changed), r.Count(converge.Unchanged))
}
