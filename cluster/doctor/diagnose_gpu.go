package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/mig"
)

// judgeLog judges what the driver has logged of GPUs that all are there: errors with a number. Those
// that a program has caused are its owner's, and messages without a number are of an earlier start.
func (d *diagnosis) judgeLog(m Machine, log []string) {
	for _, x := range nvidia.ExplainLog(log) {
		if x.Xid == 0 || x.Fault == "" || x.Fault == nvidia.InApplication {
			continue
		}
		f := Finding{Failure: "gpu-error", Severity: Warning, Evidence: []string{x.Line}}
		f.Do = cmp.Or(x.Do, "homelab gpu:verify shows whether it computes")
		if x.Stops {
			f.Severity = Error
			f.Do += ": homelab node:cycle -node=" + m.Name
		}
		x.Do = ""
		f.What = x.String()
		d.add(inSystem, m.Name, f)
	}
}

// compareLayout compares how a machine's GPUs are divided with the file.
func (d *diagnosis) compareLayout(m Machine, s nvidia.DriverState) {
	f := Finding{Failure: "mig-layout"}
	f.Do = "homelab cluster:up divides them; journalctl -u homelab-mig on " + m.Name + " says what nvidia-smi answered"
	if m.External {
		f.Do = "divide them on the machine and at its every boot, since it is external: docs/mig.md"
	}
	var wrong []string
	if m.MIG != nil {
		for _, l := range offer.Layouts(m.Node) {
			d.checkLayout(m, l, &f, &wrong)
		}
		f.Evidence = m.MIG.Messages
	} else {
		for _, g := range s.GPUs() {
			if g.MIG {
				wrong = append(wrong, fmt.Sprintf("GPU %d is in MIG mode, with %s", g.Index, printable.Count(len(g.Instances), "instance")))
			}
		}
	}
	if len(wrong) > 0 {
		f.What = "its GPUs are not divided as in the file: " + strings.Join(wrong, "; ")
		d.add(inSystem, m.Name, f)
	}
}

// checkLayout says what is wrong with the layout of one GPU: the card does not have it, or is divided in
// another way.
func (d *diagnosis) checkLayout(m Machine, l mig.Layout, f *Finding, wrong *[]string) {
	diff := m.MIG.DiffGPUs([]mig.Layout{l})
	if diff.Empty() {
		return
	}
	for _, g := range m.MIG.GPUs {
		var no *mig.LayoutError
		if g.Index == l.Index && len(l.Profiles) > 0 && errors.As(mig.CheckFit(g.Kind, l.Profiles), &no) {
			*wrong = append(*wrong, fmt.Sprintf("GPU %d cannot be divided into %s: %s: %s", l.Index, l, no.Chip, no.Reason))
			f.Do = no.Do
			return
		}
	}
	*wrong = append(*wrong, diff.String())
}

// allocatable compares the GPUs, or their instances, that a node offers with those of the file.
func (d *diagnosis) allocatable(want spec.Node, have kube.Node) {
	if !want.HasGPUs() || d.e.Spec.NVIDIA.Stack == spec.StackNone {
		return
	}
	offers, namespace, by := offer.GPUsOf(want).Resources, nvidia.PluginName, "device plugin"
	switch d.e.Spec.NVIDIA.Stack {
	case spec.StackOperator:
		namespace = "gpu-operator"
	case spec.StackDRA:
		namespace, by = "dra-driver-nvidia-gpu", "DRA driver"
	}
	for _, name := range slices.Sorted(maps.Keys(offers)) {
		n := have.Count(name)
		if n >= int64(offers[name]) {
			continue
		}
		f := Finding{
			Failure: "gpus-not-offered", Where: "node " + want.Name,
			What: fmt.Sprintf("it offers %d of %d %s", n, offers[name], name), Evidence: []string{fmt.Sprintf("allocatable: %s=%d", name, n)},
			Do: fmt.Sprintf("is the %s on it? kubectl -n %s get pods -o wide; "+
				"it needs the driver, the toolkit, and a toleration for the node's taints", by, printable.Word(namespace)),
		}
		for _, t := range foreignTaint(want, have) {
			f.Evidence = append(f.Evidence, "taint: "+t)
			f.What += ", and has a taint that the file does not name: nothing that homelab deploys tolerates it"
			f.Do = fmt.Sprintf("write taints: [%q] for the node, and cluster:up makes everything tolerate it; "+
				"or remove it: kubectl taint node %s %s-", t, printable.Word(want.Name), printable.Word(t))
		}
		d.add(inOffer, want.Name, f)
	}
}

// foreignTaint is the first taint of a node that is not the file's, nor Kubernetes' own.
func foreignTaint(want spec.Node, have kube.Node) []string {
	for _, t := range have.Taints {
		ours := slices.ContainsFunc(want.Taints, func(w spec.Taint) bool { return w.Key == t.Key })
		if !ours && !strings.Contains(t.Key, ".kubernetes.io/") && !strings.HasPrefix(t.Key, nvidia.Resource) {
			return []string{t.String()}
		}
	}
	return nil
}
