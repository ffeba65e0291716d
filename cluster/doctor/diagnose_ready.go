package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/internal/printable"
)

// judgeUnready judges a pod that runs and is not Ready. Its node comes first: while that is silent,
// nobody knows how the pod is.
func (d *diagnosis) judgeUnready(p *corev1.Pod, f *Finding) bool {
	ready, ok := conditionOf(p, corev1.PodReady)
	if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil || !ok {
		return false
	}
	f.Failure = "pod-not-ready"
	if ready.Status == corev1.ConditionTrue {
		return d.restarted(p, f)
	}
	f.Evidence = []string{strings.Trim(fmt.Sprintf("Ready: %s %s", ready.Reason, ready.Message), ": ")}
	for _, n := range d.e.Nodes {
		if n.Name == p.Spec.NodeName && !n.Ready {
			f.What, f.Do = "its node "+n.Name+" is not ready, so how the pod is, is unknown", "see the finding of node "+n.Name
			return true
		}
	}
	for _, cs := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if found, judged := d.judgeUnreadyContainer(p, cs, f); judged {
			return found
		}
	}
	if d.e.Time.Sub(ready.LastTransitionTime.Time) < settled {
		return false
	}
	f.What = "its containers are ready, and its node's kubelet does not report it, as after a node was silent"
	f.Do = "systemctl restart k3s-agent (k3s on a server) on " + p.Spec.NodeName
	if ready.Reason == "ReadinessGatesNotReady" {
		f.What, f.Do = "a readiness gate is not met: "+ready.Message, "the controller that the gate belongs to (a load balancer's, for example) sets it"
	}
	return true
}

// judgeUnreadyContainer judges a container that keeps its pod from being Ready. judged is false if it
// does not.
func (d *diagnosis) judgeUnreadyContainer(p *corev1.Pod, cs corev1.ContainerStatus, f *Finding) (found, judged bool) {
	last, up := cs.LastTerminationState.Terminated, cs.State.Running
	logs := fmt.Sprintf("kubectl -n %s logs %s -c %s", printable.Word(p.Namespace), printable.Word(p.Name), printable.Word(cs.Name))
	switch {
	case cs.Ready || cs.State.Waiting != nil:
		return false, false
	case cs.State.Terminated != nil:
		if cs.State.Terminated.ExitCode == 0 {
			return false, false
		}
		f.Failure, f.What, f.Do = "pod-crashing", "container "+cs.Name+" has ended", logs
		f.addTermination(cs.Name, cs.State.Terminated)
		return true, true
	case up == nil:
		return false, false
	case d.e.Time.Sub(up.StartedAt.Time) < settled && last == nil:
		return false, true // it starts
	case d.e.Time.Sub(up.StartedAt.Time) < settled:
		f.Failure, f.What, f.Do = "pod-crashing", fmt.Sprintf("container %s ends again and again (%s), and is not ready in between", cs.Name, printable.Count(int(cs.RestartCount), "restart")), logs+" --previous"
		f.addTermination(cs.Name, last)
		return true, true
	}
	probe := "readiness"
	if cs.Started != nil && !*cs.Started {
		probe = "startup"
	}
	f.What, f.Do = fmt.Sprintf("container %s runs, and its %s probe does not succeed", cs.Name, probe), "the probe's answer is in the evidence; the program's own words: "+logs
	f.Evidence = append(f.Evidence, d.complaints("Pod", p.Namespace, p.Name)...)
	return true, true
}

// addTermination adds how a container ended.
func (f *Finding) addTermination(container string, t *corev1.ContainerStateTerminated) {
	f.Evidence = append(f.Evidence, strings.TrimSpace(fmt.Sprintf("exit code %d, %s %s", t.ExitCode, t.Reason, t.Message)))
	if t.Reason == "OOMKilled" {
		f.What, f.Do = "container "+container+" needs more memory than its limit", "raise its memory limit"
	}
}

// A pod that is Ready is a finding if a container was restarted so often, the last time so short
// a time ago. A restart of its node restarts each container once.
const (
	oftenRestarted = 3
	lately         = time.Hour
)

// restarted judges a pod that is Ready, for now.
func (d *diagnosis) restarted(p *corev1.Pod, f *Finding) bool {
	for _, cs := range p.Status.ContainerStatuses {
		last := cs.LastTerminationState.Terminated
		if cs.RestartCount < oftenRestarted || last == nil || d.e.Time.Sub(last.FinishedAt.Time) > lately {
			continue
		}
		f.Failure, f.Severity = "pod-restarting", Warning
		f.What = fmt.Sprintf("container %s runs, after %s, the last %s ago", cs.Name, printable.Count(int(cs.RestartCount), "restart"), d.e.Time.Sub(last.FinishedAt.Time).Round(time.Minute))
		f.Do = fmt.Sprintf("kubectl -n %s logs %s -c %s --previous", printable.Word(p.Namespace), printable.Word(p.Name), printable.Word(cs.Name))
		f.addTermination(cs.Name, last)
		return true
	}
	return false
}

func conditionOf(p *corev1.Pod, kind corev1.PodConditionType) (corev1.PodCondition, bool) {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return corev1.PodCondition{}, false
	}
	return p.Status.Conditions[i], true
}

// lastRun says what the last run on this machine said, if that failed.
func (d *diagnosis) lastRun() {
	r := d.e.LastRun
	if r == nil {
		return
	}
	var names, words []string
	for _, s := range r.Failed {
		names = append(names, s.Name)
		words = append(words, s.Name+": "+strings.TrimSpace(s.Error))
	}
	d.add(inWorkload, "", Finding{
		Failure: "run-failed", Severity: Warning, Where: "last run", What: fmt.Sprintf("it failed %s ago: %s", d.e.Time.Sub(r.Ended).Round(time.Second), strings.Join(names, ", ")),
		Evidence: strings.Split(strings.Join(words, "\n"), "\n"), Do: "fix what is found here, then run it again: homelab cluster:up",
	})
}
