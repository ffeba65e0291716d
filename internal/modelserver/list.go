package modelserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/kube"
)

// State is how far a server is.
type State string

// The states. A server is Ready when at least one replica answers.
const (
	Ready   State = "ready"
	Pending State = "pending" // no pod runs
	Loading State = "loading" // the engine runs, and does not answer yet
	Crashed State = "crashed" // the engine has ended, and is started again
	Off     State = "off"     // no replica is wanted
	Asleep  State = "asleep"  // no replica is wanted until its hours begin
)

// Server is one model of the cluster with its replicas. Its keys of JSON are added to, and never change
// their meaning.
type Server struct {
	Name    string   `json:"name"` // as clients write it
	Engine  string   `json:"engine"`
	Source  string   `json:"source"`
	Context int      `json:"context,omitempty"` // tokens; 0: unknown
	Ready   int      `json:"ready"`             // replicas
	Wanted  int      `json:"wanted"`
	GPUs    int      `json:"gpus"` // of one replica
	Nodes   []string `json:"nodes,omitempty"`
	Address string   `json:"address"` // for clients in the cluster
	State   State    `json:"state"`
	Awake   string   `json:"awake,omitempty"`  // its hours, with their time zone; empty: always
	Detail  string   `json:"detail,omitempty"` // what a server that is not ready lacks, and what to do
}

// serverOf is the server of a Deployment, without its pods.
func serverOf(d *appsv1.Deployment) Server {
	s := Server{
		Name: d.Name, Engine: d.Annotations[EngineNote], Source: d.Annotations[SourceNote], Ready: int(d.Status.ReadyReplicas), Wanted: 1,
		Address: fmt.Sprintf("http://%s.%s.svc:%d/v1", d.Name, d.Namespace, PortNumber), State: Ready,
	}
	s.Awake = d.Annotations[AwakeNote]
	s.Context, _ = strconv.Atoi(d.Annotations[ContextNote])
	if d.Spec.Replicas != nil {
		s.Wanted = int(*d.Spec.Replicas)
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		for name, q := range c.Resources.Limits {
			if strings.HasPrefix(string(name), "nvidia.com/") {
				s.GPUs += int(q.Value())
			}
		}
	}
	return s
}

// List returns the model servers of a cluster, by name; none if it serves no models.
func List(ctx context.Context, k *kube.Client) ([]Server, error) {
	selector := ComponentLabel + "=" + Component
	deployments, err := kube.ListAs[appsv1.Deployment](ctx, k, "apps/v1", "Deployment", Namespace, selector)
	if err != nil || len(deployments) == 0 {
		return nil, err
	}
	pods, err := kube.ListAs[corev1.Pod](ctx, k, "v1", "Pod", Namespace, selector)
	if err != nil {
		return nil, err
	}
	var out []Server
	for i := range deployments {
		s := serverOf(&deployments[i])
		own := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
			return p.Labels[NameLabel] != s.Name || p.DeletionTimestamp != nil
		})
		for _, p := range own {
			if p.Spec.NodeName != "" && !slices.Contains(s.Nodes, p.Spec.NodeName) {
				s.Nodes = append(s.Nodes, p.Spec.NodeName)
			}
		}
		slices.Sort(s.Nodes)
		if err := s.examine(ctx, k, own); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// examine sets the state, and why some replica is not ready.
func (s *Server) examine(ctx context.Context, k *kube.Client, pods []corev1.Pod) error {
	if s.Wanted == 0 {
		s.State = Off
		if from, _, ok := strings.Cut(s.Awake, "-"); ok {
			_, zone, _ := strings.Cut(s.Awake, " ")
			s.State, s.Detail = Asleep, "until "+strings.TrimSpace(from+" "+zone)
		}
		return nil
	}
	if s.Ready >= s.Wanted {
		return nil
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return !isReady(&p) })
	state, detail := Pending, "no pod exists yet: kubectl -n "+Namespace+" describe deployment,replicaset shows why"
	if i >= 0 {
		var err error
		if state, detail, err = reasonOf(ctx, k, &pods[i]); err != nil {
			return err
		}
	}
	s.Detail = detail
	if s.Ready == 0 {
		s.State = state
	} else {
		s.Detail = fmt.Sprintf("%d of %d replicas are ready; another is %s: %s", s.Ready, s.Wanted, state, detail)
	}
	return nil
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// reasonOf says why a pod is not ready.
func reasonOf(ctx context.Context, k *kube.Client, p *corev1.Pod) (State, string, error) {
	all := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	for _, c := range all {
		if why, err := crashOf(ctx, k, p, c); err != nil || why != "" {
			return Crashed, why, err
		}
	}
	for _, c := range all {
		if c.State.Running == nil {
			continue
		}
		log, err := logOf(ctx, k, p, c.Name, false)
		return Loading, cmp.Or(lastLine(log), "its container "+c.Name+" runs and has written nothing yet"), err
	}
	state, err := k.PodState(ctx, p.Namespace, p.Name)
	return Pending, cmp.Or(state.Reason, "its pod "+p.Name+" has not started"), err
}

// crashOf says why a container ended, or ended before its last start; nothing if it did not, or if it runs
// again after an end whose cause is not known.
func crashOf(ctx context.Context, k *kube.Client, p *corev1.Pod, c corev1.ContainerStatus) (string, error) {
	last := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
	if last == nil || last.ExitCode == 0 {
		return "", nil
	}
	times := ""
	if c.RestartCount > 0 {
		times = fmt.Sprintf(" (restarts: %d)", c.RestartCount)
	}
	if last.Reason == "OOMKilled" {
		return "the node killed it because the pod used more main memory than its limit" + times, nil
	}
	log, err := logOf(ctx, k, p, c.Name, c.State.Terminated == nil)
	if err != nil {
		return "", err
	}
	why, known := diagnose(log)
	if !known && c.State.Running != nil {
		return "", nil
	}
	return cmp.Or(why, fmt.Sprintf("container %s ended with exit status %d and wrote nothing", c.Name, last.ExitCode)) + times, nil
}

// logLines is how many lines at the end of a log are searched for a cause: vLLM writes a traceback of
// each process.
const logLines = 400

// logOf reads a container's log. A kubelet that has none, as of a container before its first restart, is
// no error.
func logOf(ctx context.Context, k *kube.Client, p *corev1.Pod, container string, previous bool) (string, error) {
	log, err := k.PodLog(ctx, p.Namespace, p.Name, container, logLines, previous)
	if err != nil && ctx.Err() == nil {
		return "", nil //nolint:nilerr // what else is known of the pod is worth more than this error
	}
	return log, err
}
