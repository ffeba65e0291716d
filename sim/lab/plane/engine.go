package plane

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/modelengine"
)

// engineContainer is the index of a pod's container with a server of a language model; -1: it has none.
func engineContainer(pod *corev1.Pod) int {
	return slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		_, ok := modelengine.New(c.Image, slices.Concat(c.Command, c.Args))
		return ok
	})
}

func hasEngine(pod *corev1.Pod) bool { return engineContainer(pod) >= 0 }

// startEngine runs a pod's init containers and loads its model, in the background.
func (k *kubelet) startEngine(ctx context.Context, m *member, pod *corev1.Pod) (time.Duration, error) {
	return k.inBackground(ctx, m, pod, func(ctx context.Context, containers [][]guest.Container) error {
		if err := k.newRun(m, pod).initialize(ctx, containers[0]); err != nil {
			return err
		}
		i := engineContainer(pod)
		c := containers[1][i]
		e, ok := modelengine.New(c.Image, c.Args)
		if !ok {
			return nil
		}
		return k.loadModel(ctx, m, pod, &pod.Spec.Containers[i], e, engineMachine(ctx, m, c))
	})
}

// loadModel takes an engine's container through its start, again and again while it fails.
func (k *kubelet) loadModel(ctx context.Context, m *member, pod *corev1.Pod, spec *corev1.Container, e modelengine.Engine, on modelengine.Machine) error {
	const line = 150 * time.Millisecond // between two lines of its log
	status := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, ImageID: spec.Image}
	pause := 10 * time.Second // doubles up to five minutes, as the kubelet's
	for {
		began := metav1.Now()
		k.logs.begins(pod, spec.Name)
		status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}
		if err := k.runExcept(ctx, m, pod, &status); err != nil {
			return err
		}
		start := e.Load(on, time.Now())
		for _, text := range start.Lines {
			k.logs.add(pod, spec.Name, text+"\n")
			if err := converge.Pause(ctx, line); err != nil {
				return err
			}
		}
		if start.Code == 0 {
			return k.runOn(ctx, m, pod)
		}
		status.LastTerminationState = corev1.ContainerState{Terminated: terminated(*spec, start.Code, strings.Join(start.Lines, "\n"), "", began)}
		status.RestartCount++
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", pause, spec.Name, pod.Name),
		}}
		k.eventOn(pod, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s", spec.Name, pod.Name)
		k.logs.ended(pod, spec.Name)
		if err := k.runExcept(ctx, m, pod, &status); err != nil {
			return err
		}
		if err := converge.Pause(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 5*time.Minute)
	}
}

// engineMachine is what an engine finds in its container: the cards that the guest's nvidia-smi shows there, and
// a token.
func engineMachine(ctx context.Context, m *member, c guest.Container) modelengine.Machine {
	out := modelengine.Machine{Token: c.Env["HF_TOKEN"] != ""}
	if c.GPUs == 0 || m.Run == nil {
		return out
	}
	c.Args = []string{"nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"}
	_, output, _ := m.Run(ctx, c)
	for _, field := range strings.Fields(output) {
		if mib, err := strconv.ParseFloat(field, 64); err == nil {
			out.Cards = append(out.Cards, mib*(1<<20))
		}
	}
	return out
}
