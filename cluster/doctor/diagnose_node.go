package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/nvidia"
)

// k3s judges the K3s of a machine.
func (d *diagnosis) k3s(m Machine) {
	if m.Err != nil || !m.Role.IsNode() {
		return
	}
	s, want := m.Kubernetes, m.Role
	switch {
	case m.KubernetesErr != nil:
		d.add(inK3s, m.Name,
			Finding{Failure: "k3s-unread", What: "K3s could not be looked at", Evidence: errorLines(m.KubernetesErr), Do: "run it again"})
		return
	case s.Role == "":
		d.add(inK3s, m.Name, Finding{Failure: "k3s-missing", What: "K3s is not set up", Do: "homelab cluster:up installs it and lets the node join"})
		return
	case s.Role != want:
		d.add(inK3s, m.Name, Finding{
			Failure: "k3s-role", What: fmt.Sprintf("it should be %s and has the units of %s", want, s.Role), Evidence: []string{"units: " + string(s.Role)},
			Do: fmt.Sprintf("disable the wrong unit on it, or recreate it: homelab node:replace -node=%s", printable.Word(m.Name)),
		})
		return // what its units do is of no account
	}
	if !s.Running {
		f := Finding{Failure: "k3s-down", What: "K3s does not run", Evidence: []string{s.Service + ".service: " + s.Active}, Do: fmt.Sprintf("journalctl -u %s on %s", printable.Word(s.Service), printable.Word(m.Name))}
		if s.Cause != "" {
			f.What += ": " + s.Cause
			f.Evidence = append(f.Evidence, s.Line)
			if s.Cure != "" {
				f.Do = s.Cure
			}
		} else if s.Ended != "" {
			f.What += ": its last run ended: " + s.Ended
		}
		d.add(inK3s, m.Name, f)
	}
	if want := d.e.Spec.K3s.Version; s.Version != "" && s.Version != want {
		d.add(inK3s, m.Name, Finding{
			Failure: "k3s-version", Severity: Warning, What: fmt.Sprintf("K3s is %s, and the file says %s", s.Version, want), Evidence: []string{"k3s --version: " + s.Version},
			Do: "homelab cluster:up upgrades node by node",
		})
	}
}

// endsSoon is how long before its end a certificate of K3s is a finding. K3s renews those that end
// within k3s.RenewDays, but only when it starts.
const endsSoon = 30 * 24 * time.Hour

// certificates judges the certificates of K3s on a machine.
func (d *diagnosis) certificates(m Machine) {
	f := Finding{Failure: "certificate", Do: "homelab cluster:certs -rotate makes new ones, on one node after the other"}
	var some []string
	for _, c := range m.Certs {
		left := c.Until.Sub(d.e.Time)
		if left > endsSoon {
			break // the first to end is first
		}
		some = append(some, fmt.Sprintf("%s (%s) until %s", c.File, c.Subject, c.Until.UTC().Format(time.DateOnly)))
		if c.Authority {
			f.Do = "it is an authority's, which cluster:certs does not renew: k3s certificate rotate-ca on a server"
		}
	}
	if len(some) == 0 {
		return
	}
	first := m.Certs[0].Until
	all, day := printable.Count(len(some), "certificate"), first.UTC().Format(time.DateOnly)
	f.What = fmt.Sprintf("%s of K3s: the first has ended on %s, and its programs are refused", all, day)
	if first.After(d.e.Time) {
		f.Severity = Warning
		f.What = fmt.Sprintf("%s of K3s: the first ends on %s, and K3s renews them only when it starts", all, day)
	}
	f.Evidence = some[:min(3, len(some))]
	d.add(inSystem, m.Name, f)
}

// driver judges NVIDIA's driver and toolkit on a machine.
func (d *diagnosis) driver(m Machine) {
	if m.DrvErr != nil {
		d.add(inSystem, m.Name,
			Finding{Failure: "driver-unread", Severity: Warning, What: "NVIDIA's driver could not be looked at", Evidence: errorLines(m.DrvErr), Do: "run it again"})
	}
	if m.Driver == nil {
		return
	}
	s := *m.Driver
	seen := append(errorLines(s.SMIError), s.Log...)
	switch {
	case errors.Is(s.SMIError, nvidia.ErrVersionMismatch):
		d.add(inSystem, m.Name, Finding{
			Failure: "driver-mismatch", What: "a driver was installed over the one that is loaded: no program can use a GPU until the machine restarts",
			Evidence: append(seen, "loaded module: "+s.Loaded), Do: "homelab node:cycle -node=" + m.Name + " drains it and switches it off and on; cluster:up holds driver and kernel",
		})
	case errors.Is(s.SMIError, nvidia.ErrLost):
		f := Finding{Failure: "gpu-missing", What: "a GPU no longer answers", Evidence: seen, Do: "homelab node:cycle -node=" + m.Name + " resets the cards; then look at the host's log"}
		d.addReason(&f, nvidia.DiffGPUs(s, offer.GPUsOf(m.Node).Cards))
		d.add(inSystem, m.Name, f)
	case s.Loaded == "" || s.SMIError != nil:
		f := Finding{Failure: "driver-not-loaded", What: "NVIDIA's driver does not work", Evidence: seen, Do: "homelab cluster:up installs or repairs it"}
		d.addReason(&f, nvidia.DiffGPUs(s, offer.GPUsOf(m.Node).Cards))
		d.add(inSystem, m.Name, f)
	case len(s.GPUs()) < offer.GPUsOf(m.Node).Cards:
		f := Finding{Failure: "gpu-missing",
			What: fmt.Sprintf("the driver has %d of %s", len(s.GPUs()), printable.Count(offer.GPUsOf(m.Node).Cards, "GPU")), Evidence: seen, Do: "homelab node:cycle -node=" + m.Name + " resets the cards; then look at the host's log"}
		d.addReason(&f, nvidia.DiffGPUs(s, offer.GPUsOf(m.Node).Cards))
		d.add(inSystem, m.Name, f)
	default:
		d.judgeLog(m, s.Log)
		d.compareLayout(m, s)
	}
	for _, field := range (nvidia.Toolkit{}).Diff(s) {
		if field.Path != "containerd" && field.Path != "runtime" {
			continue // versions and holds are the plan's
		}
		d.add(inSystem, m.Name, Finding{
			Failure: "toolkit", What: "containers cannot use its GPUs: " + cmp.Or(field.Note, field.Have),
			Evidence: []string{strings.TrimSpace(field.Path + ": " + field.Have)}, Do: "homelab cluster:up does it",
		})
	}
}

// addReason adds the reason that the driver's state has.
func (d *diagnosis) addReason(f *Finding, diff converge.Diff) {
	for _, field := range diff {
		if field.Note != "" {
			f.What += ": " + field.Note
		}
	}
}

// nodes judges the nodes as Kubernetes sees them.
func (d *diagnosis) nodes() {
	if d.e.API != nil {
		d.apiFinding()
		return
	}
	seen := map[string]bool{}
	for _, n := range d.e.Nodes {
		seen[n.Name] = true
		want, ours := d.nodeOfFile(n.Name)
		if !ours {
			d.add(inKubernetes, n.Name, Finding{Failure: "node-foreign", Severity: Warning, Where: "node " + n.Name, What: "it is in the cluster and not in the file", Do: "if it is gone for good: kubectl delete node " + n.Name})
			continue
		}
		if !n.Ready {
			d.add(inKubernetes, n.Name, Finding{Failure: "node-not-ready", Where: "node " + n.Name, What: "it is not ready: " + n.Reason, Evidence: []string{"Ready: " + n.Reason}, Do: "journalctl -u k3s-agent (k3s on a server) on " + n.Name})
		}
		if n.Cordoned {
			d.add(inKubernetes, "", Finding{Failure: "node-cordoned", Severity: Warning, Where: "node " + n.Name, What: "it is drained or cordoned and gets no pods", Do: "homelab node:uncordon -node=" + n.Name})
		}
		d.allocatable(want, n)
	}
	d.providerIDs()
	d.imagePeers()
	for _, m := range d.e.Machines {
		if !seen[m.Name] && m.Role.IsNode() {
			d.add(inKubernetes, m.Name, Finding{Failure: "node-missing", Where: "node " + m.Name, What: "the file has it and the cluster does not", Do: "homelab cluster:up lets it join"})
		}
	}
}

// apiFinding is the finding of an API that does not answer. It follows from the servers, if one of
// them has an error.
func (d *diagnosis) apiFinding() {
	f := Finding{Failure: "api-down", Where: "Kubernetes", What: "its API does not answer, so nodes and pods were not looked at",
		Evidence: errorLines(d.e.API), Do: "look at the servers first: K3s must run on more than half of them"}
	for _, m := range d.e.Machines {
		if m.Role != spec.Server {
			continue
		}
		for _, cause := range d.found {
			if cause.machine == m.Name && cause.Severity == Error {
				f.Follows = cause.name()
				d.add(inKubernetes, "", f)
				return
			}
		}
	}
	d.add(inKubernetes, "", f)
}
