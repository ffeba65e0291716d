package plane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/guest"
)

// startCommands runs a pod that ends, in the background, once.
func (k *kubelet) startCommands(ctx context.Context, m *member, pod *corev1.Pod) (time.Duration, error) {
	return k.inBackground(ctx, m, pod, func(ctx context.Context, containers [][]guest.Container) error {
		return k.runPod(ctx, m, pod, containers)
	})
}

// inBackground resolves a pod's containers and runs them, once.
func (k *kubelet) inBackground(ctx context.Context, m *member, pod *corev1.Pod, do func(context.Context, [][]guest.Container) error) (time.Duration, error) {
	k.mu.Lock()
	_, running := m.running[pod.UID]
	k.mu.Unlock()
	if running {
		return 0, nil
	}
	containers, err := k.containers(ctx, m, pod)
	var missing *mountError
	if errors.As(err, &missing) {
		k.eventOn(pod, corev1.EventTypeWarning, missing.reason(), "%s", missing.Error())
		return recheck, nil
	}
	if err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, running := m.running[pod.UID]; running || k.nodes[m.Name] != m {
		return 0, nil
	}
	run, cancel := context.WithCancel(ctx)
	m.running[pod.UID] = cancel
	k.runs.Go(func() {
		defer cancel()
		if err := do(run, containers); err != nil && run.Err() == nil && !apierrors.IsNotFound(err) {
			k.log.Info("pod", "pod", pod.Namespace+"/"+pod.Name, "why", err)
		}
	})
	return 0, nil
}

// podRun is one pod whose commands run, with the data for its status.
type podRun struct {
	k   *kubelet
	m   *member
	pod *corev1.Pod

	mu         sync.Mutex
	started    metav1.Time
	containers []corev1.ContainerStatus
	inits      []corev1.ContainerStatus
}

func (k *kubelet) newRun(m *member, pod *corev1.Pod) *podRun {
	r := &podRun{k: k, m: m, pod: pod, started: metav1.Now()}
	for _, c := range pod.Spec.InitContainers {
		r.inits = append(r.inits, waiting(c, "PodInitializing"))
	}
	for _, c := range pod.Spec.Containers {
		r.containers = append(r.containers, waiting(c, "PodInitializing"))
	}
	return r
}

// initialize runs the init containers, until one fails that is not restarted.
func (r *podRun) initialize(ctx context.Context, containers []guest.Container) error {
	for i := range r.inits {
		if err := r.runContainer(ctx, r.inits, i, containers[i]); err != nil || failed(r.inits[i]) {
			return err
		}
	}
	return nil
}

// runPod runs the init containers one by one and then the others side by side.
func (k *kubelet) runPod(ctx context.Context, m *member, pod *corev1.Pod, containers [][]guest.Container) error {
	r := k.newRun(m, pod)
	if err := r.initialize(ctx, containers[0]); err != nil {
		return err
	}
	if slices.ContainsFunc(r.inits, failed) {
		return r.report(ctx, corev1.PodFailed)
	}
	errs := make([]error, len(r.containers))
	var all sync.WaitGroup
	for i := range r.containers {
		all.Go(func() { errs[i] = r.runContainer(ctx, r.containers, i, containers[1][i]) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, s := range r.containers {
		if failed(s) {
			return r.report(ctx, corev1.PodFailed)
		}
	}
	return r.report(ctx, corev1.PodSucceeded)
}

// runContainer runs one command, repeatedly if the pod's restart policy says so. It returns an
// error if ctx ended or the API server failed.
func (r *podRun) runContainer(ctx context.Context, list []corev1.ContainerStatus, i int, c guest.Container) error {
	spec := r.spec(list)[i]
	pause := 10 * time.Second // doubles up to five minutes, as the kubelet's
	for {
		began := metav1.Now()
		r.k.logs.begins(r.pod, spec.Name)
		r.set(list, i, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}})
		if err := r.report(ctx, corev1.PodRunning); err != nil {
			return err
		}
		code, output, log := r.execute(ctx, spec, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.k.logs.add(r.pod, spec.Name, output)
		done := terminated(spec, code, output, log, began)
		r.set(list, i, corev1.ContainerState{Terminated: done})
		if code == 0 || r.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			return nil
		}
		r.k.logs.ended(r.pod, spec.Name)
		r.backOff(list, i, done, spec.Name, pause)
		if err := r.report(ctx, corev1.PodRunning); err != nil {
			return err
		}
		if err := converge.Pause(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 5*time.Minute)
	}
}

// execute runs a container's command on the guest. A missing program in an unknown image
// counts as done, and the log says so.
func (r *podRun) execute(ctx context.Context, spec corev1.Container, c guest.Container) (code int, output, log string) {
	if r.k.command != nil {
		if code, output, known := r.k.command(ctx, r.pod, spec); known {
			return code, output, ""
		}
	}
	const notFound = 128 // containerd's, for a program that is not in the image
	if !strings.Contains(spec.Image, "rancher/shell") {
		code, output, log = r.m.Run(ctx, c)
		if code != notFound || hasShell(spec.Image) {
			return code, output, log
		}
	}
	return 0, fmt.Sprintf("(simulated: the lab does not have the programs of %s; this counts as done)\n", spec.Image), ""
}

// hasShell reports whether the lab has an image's programs: those of a shell, and CUDA's. A
// missing program is then missing in the real image too.
func hasShell(image string) bool {
	return slices.ContainsFunc([]string{"busybox", "alpine", "ubuntu", "debian", "cuda"}, func(name string) bool { return strings.Contains(image, name) })
}

func (r *podRun) spec(list []corev1.ContainerStatus) []corev1.Container {
	if len(list) > 0 && len(r.inits) > 0 && &list[0] == &r.inits[0] {
		return r.pod.Spec.InitContainers
	}
	return r.pod.Spec.Containers
}

func (r *podRun) set(list []corev1.ContainerStatus, i int, state corev1.ContainerState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list[i].State = state
	up := state.Running != nil
	list[i].Started, list[i].Ready = &up, up
	list[i].ContainerID = "containerd://" + shortHash(string(r.pod.UID)+list[i].Name)
}

func (r *podRun) backOff(list []corev1.ContainerStatus, i int, last *corev1.ContainerStateTerminated, name string, pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list[i].RestartCount++
	list[i].LastTerminationState = corev1.ContainerState{Terminated: last}
	list[i].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", pause, name, r.pod.Name),
	}}
}

// report writes the pod's status.
func (r *podRun) report(ctx context.Context, phase corev1.PodPhase) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	initialized, ready, reason := corev1.ConditionTrue, corev1.ConditionTrue, ""
	switch {
	case phase == corev1.PodRunning && slices.ContainsFunc(r.inits, func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil || failed(s) }):
		phase, initialized, ready, reason = corev1.PodPending, corev1.ConditionFalse, corev1.ConditionFalse, "ContainersNotInitialized"
	case phase != corev1.PodRunning:
		ready, reason = corev1.ConditionFalse, map[corev1.PodPhase]string{corev1.PodSucceeded: "PodCompleted", corev1.PodFailed: "PodFailed"}[phase]
	}
	ip, err := r.k.address(r.m, r.pod)
	if err != nil {
		return err
	}
	return r.k.patchStatus(ctx, r.pod, map[string]any{
		"phase": phase, "startTime": r.started,
		"hostIP": r.m.InternalIP.String(), "hostIPs": []any{map[string]any{"ip": r.m.InternalIP.String()}},
		"podIP": ip, "podIPs": []any{map[string]any{"ip": ip}},
		"containerStatuses": r.containers, "initContainerStatuses": r.inits,
		"conditions": []any{
			condition(corev1.PodInitialized, initialized, "", ""),
			condition(corev1.PodReady, ready, reason, ""),
			condition(corev1.ContainersReady, ready, reason, ""),
		},
	})
}

func waiting(c corev1.Container, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func failed(s corev1.ContainerStatus) bool {
	return s.State.Terminated != nil && s.State.Terminated.ExitCode != 0
}

// Limits of a termination message, from pkg/kubelet/container: 4 KiB from the
// file, 2 KiB or 80 lines from the log.
const (
	maxMessage      = 4096
	maxMessageLog   = 2048
	maxMessageLines = 80
)

func terminated(c corev1.Container, code int, output, log string, began metav1.Time) *corev1.ContainerStateTerminated {
	message := log[:min(len(log), maxMessage)]
	if message == "" && code != 0 && c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		lines := strings.SplitAfter(output, "\n")
		message = strings.Join(lines[max(0, len(lines)-maxMessageLines):], "")
		message = message[max(0, len(message)-maxMessageLog):]
	}
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: int32(code), Reason: reason, Message: message, StartedAt: began, FinishedAt: metav1.Now(),
	}
}
