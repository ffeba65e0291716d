package table

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podState is what the column Status says of a pod, and what else comes of its containers.
type podState struct {
	reason         string
	ready, all     int
	restarts       int
	lastRestart    metav1.Time
	sidecars       int // restarts of init containers that run on
	lastOfSidecars metav1.Time
}

func later(a metav1.Time, cs corev1.ContainerStatus) metav1.Time {
	if t := cs.LastTerminationState.Terminated; t != nil && a.Before(&t.FinishedAt) {
		return t.FinishedAt
	}
	return a
}

// ending is why a container ended.
func ending(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

// inits looks at the init containers, up to the one that the pod waits for.
func (s *podState) inits(p *corev1.Pod) (waits bool) {
	sidecar := func(name string) bool {
		return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
	}
	for _, c := range p.Spec.InitContainers {
		if sidecar(c.Name) {
			s.all++
		}
	}
	for i, cs := range p.Status.InitContainerStatuses {
		s.restarts += int(cs.RestartCount)
		s.lastRestart = later(s.lastRestart, cs)
		if sidecar(cs.Name) {
			s.sidecars += int(cs.RestartCount)
			s.lastOfSidecars = later(s.lastOfSidecars, cs)
		}
		t, w := cs.State.Terminated, cs.State.Waiting
		switch {
		case t != nil && t.ExitCode == 0:
			continue
		case sidecar(cs.Name) && cs.Started != nil && *cs.Started:
			if cs.Ready {
				s.ready++
			}
			continue
		case t != nil:
			s.reason = "Init:" + ending(t)
		case w != nil && w.Reason != "" && w.Reason != "PodInitializing":
			s.reason = "Init:" + w.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		return true
	}
	return false
}

func (s *podState) containers(p *corev1.Pod) {
	running, failed := false, ""
	s.restarts, s.lastRestart = s.sidecars, s.lastOfSidecars
	for _, cs := range slices.Backward(p.Status.ContainerStatuses) {
		s.restarts += int(cs.RestartCount)
		s.lastRestart = later(s.lastRestart, cs)
		switch t := cs.State.Terminated; {
		case cs.State.Waiting != nil && cs.State.Waiting.Reason != "":
			s.reason = cs.State.Waiting.Reason
		case t != nil:
			s.reason = ending(t)
			if t.ExitCode != 0 {
				failed = s.reason
			}
		case cs.Ready && cs.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason != "Completed" {
		return
	}
	switch {
	case running && isTrue(p, corev1.PodReady):
		s.reason = "Running"
	case failed != "":
		s.reason = failed
	case running:
		s.reason = "NotReady"
	}
}

func isTrue(p *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

func pod(p *corev1.Pod) []any {
	s := podState{reason: text(p.Status.Reason, string(p.Status.Phase)), all: len(p.Spec.Containers)}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	if waits := s.inits(p); !waits || isTrue(p, corev1.PodInitialized) {
		s.containers(p)
	}
	if p.DeletionTimestamp != nil && p.Status.Reason == "NodeLost" {
		s.reason = "Unknown"
	} else if p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		s.reason = "Terminating"
	}
	restarts := strconv.Itoa(s.restarts)
	if s.restarts != 0 && !s.lastRestart.IsZero() {
		restarts += fmt.Sprintf(" (%s ago)", age(s.lastRestart))
	}
	ip := p.Status.PodIP
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	gates := none
	if n := len(p.Spec.ReadinessGates); n > 0 {
		open := 0
		for _, g := range p.Spec.ReadinessGates {
			if isTrue(p, g.ConditionType) {
				open++
			}
		}
		gates = fmt.Sprintf("%d/%d", open, n)
	}
	return []any{fmt.Sprintf("%d/%d", s.ready, s.all), s.reason, restarts, age(p.CreationTimestamp), text(ip, none), text(p.Spec.NodeName, none),
		text(p.Status.NominatedNodeName, none), gates}
}
