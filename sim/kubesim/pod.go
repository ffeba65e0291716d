package kubesim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cps-gpu/homelab/sim/dra"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/schedule"
)

const (
	startAfter = 2 * time.Second // from being bound to running: image, sandbox, start
	endAfter   = time.Second     // from being asked to end to being gone
)

// notFound is the exit status of a command without a program in the guest. Charts' hooks run
// many that are not simulated.
const notFound = 128

// run is a pod on a kubelet.
type run struct {
	since  time.Time // when it was bound, then when it was asked to end
	began  bool
	ending bool
	gpus   []string // UUIDs of those it was given
	stop   context.CancelFunc
	result *result // of a pod that has ended
	output string
}

type result struct {
	code    int
	message string
	at      time.Time
}

// runPods simulates the kubelets.
func (c *machines) runPods() {
	for _, e := range c.all("pods") {
		p := entryAs[corev1.Pod](e)
		k := c.kubelets[p.Spec.NodeName]
		if p.Spec.NodeName == "" || k == nil || !k.alive {
			continue
		}
		r := c.runs[string(p.UID)]
		if r == nil {
			r = &run{since: time.Now()}
			c.runs[string(p.UID)] = r
		}
		switch {
		case p.DeletionTimestamp != nil:
			c.end(e, r)
		case control.Ended(p):
		case r.result != nil:
			c.recordEnd(e, p, r)
		case !r.began:
			c.begin(e, p, k, r)
		case !control.Ready(p): // the node was silent for a while
			status := p.Status.DeepCopy()
			status.Conditions = conditions(corev1.ConditionTrue)
			c.putStatus(e, status)
		}
	}
}

// end removes a pod whose time to end is over.
func (c *machines) end(e *entry, r *run) {
	if !r.ending {
		r.ending, r.since = true, time.Now()
	}
	if due := r.since.Add(c.scale(endAfter)); time.Now().Before(due) {
		c.wake(due)
		return
	}
	now := int64(0)
	c.erase(e, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

func (c *machines) quit(uid string) {
	if r := c.runs[uid]; r != nil && r.stop != nil {
		r.stop()
	}
	delete(c.runs, uid)
}

// begin starts a pod that was bound long enough ago and lacks nothing.
func (c *machines) begin(e *entry, p *corev1.Pod, k *kubelet, r *run) {
	if due := r.since.Add(c.scale(startAfter)); time.Now().Before(due) {
		c.wake(due)
		return
	}
	if why := c.lacks(p, k); why != "" {
		c.note(e, "kubelet", corev1.EventTypeWarning, "FailedCreatePodSandBox", why)
		c.waiting(e, p, "ContainerCreating", why)
		return
	}
	if reason, why := c.toMachine(p, k); why != "" {
		c.note(e, "kubelet", corev1.EventTypeWarning, reason, why)
		c.waiting(e, p, reason, why)
		return
	}
	gpus, ok := c.allot(p, k)
	if !ok {
		status := p.Status.DeepCopy()
		status.Phase, status.Reason = corev1.PodFailed, "UnexpectedAdmissionError"
		status.Message = "Pod was rejected: Allocate failed due to requested number of devices unavailable for " + gpuResource + ", which is unexpected"
		c.putStatus(e, status)
		return
	}
	r.began, r.gpus = true, gpus
	now := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	status := p.Status.DeepCopy()
	status.Phase, status.StartTime = corev1.PodRunning, &now
	status.HostIP = k.node.InternalIP.String()
	status.Conditions = conditions(corev1.ConditionTrue)
	status.ContainerStatuses = nil
	started := true
	for _, ct := range p.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: ct.Name, Image: ct.Image,
			Ready: true, Started: &started, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	c.putStatus(e, status)
	if p.Spec.RestartPolicy == corev1.RestartPolicyAlways || p.Spec.RestartPolicy == "" || k.node.Run == nil || len(p.Spec.Containers) == 0 {
		return
	}
	ctx, stop := context.WithCancel(k.ctx)
	r.stop = stop
	ct := c.container(p, k, gpus)
	c.ended.Add(1)
	go func() {
		defer c.ended.Done()
		defer stop()
		code, output, message := k.node.Run(ctx, ct)
		if code == notFound {
			code, output = 0, output+"\nkubesim: a program that it does not have has done its work\n"
			c.play(ct, p.Namespace)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		r.output, r.result = output, &result{code: code, message: message, at: time.Now()}
		c.kick()
	}()
}

func conditions(ready corev1.ConditionStatus) []corev1.PodCondition {
	return []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: ready}, {Type: corev1.PodReady, Status: ready},
	}
}

// waiting sets the status of a pod whose containers cannot be created.
func (c *machines) waiting(e *entry, p *corev1.Pod, reason, message string) {
	status := p.Status.DeepCopy()
	status.Phase = corev1.PodPending
	status.ContainerStatuses = nil
	for _, ct := range p.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: ct.Name, Image: ct.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}})
	}
	c.putStatus(e, status)
}

// lacks says what keeps a pod's sandbox or volumes from being created.
func (c *machines) lacks(p *corev1.Pod, k *kubelet) string {
	if class := p.Spec.RuntimeClassName; class != nil && strings.HasPrefix(*class, "nvidia") && len(k.gpus()) == 0 {
		return fmt.Sprintf("Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for %q is configured", *class)
	}
	for _, v := range p.Spec.Volumes {
		if cm := v.ConfigMap; cm != nil && c.get(mustKind("configmaps"), p.Namespace, cm.Name) == nil && (cm.Optional == nil || !*cm.Optional) {
			return fmt.Sprintf("MountVolume.SetUp failed for volume %q : configmap %q not found", v.Name, cm.Name)
		}
		if s := v.Secret; s != nil && c.get(mustKind("secrets"), p.Namespace, s.SecretName) == nil && (s.Optional == nil || !*s.Optional) {
			return fmt.Sprintf("MountVolume.SetUp failed for volume %q : secret %q not found", v.Name, s.SecretName)
		}
	}
	return c.unbound(p)
}

// allot allocates the GPUs, or parts of them, that a pod requests.
func (c *machines) allot(p *corev1.Pod, k *kubelet) (uuids []string, ok bool) {
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		claim := control.Get[resourcev1.ResourceClaim](controllerStore{c: c.Cluster}, "resourceclaims.resource.k8s.io", p.Namespace, s.ResourceClaimName)
		return dra.GPUsOf(p, claim, k.gpus()), true
	}
	offered := c.offeredOn(p.Spec.NodeName, k.gpus())
	taken := map[string]int{}
	for _, e := range c.all("pods") {
		other := entryAs[corev1.Pod](e)
		if r := c.runs[string(other.UID)]; r != nil && other.Spec.NodeName == p.Spec.NodeName && !control.Ended(other) {
			for _, uuid := range r.gpus {
				taken[uuid]++
			}
		}
	}
	for name, n := range schedule.Needs(p) {
		if n == 0 || !strings.HasPrefix(string(name), "nvidia.com/") {
			continue
		}
		shares, want := 1, len(uuids)+int(n)
		if name == gpuResource {
			shares = offered.shares
		}
		if shares > 1 && n > 1 {
			return nil, false // failRequestsGreaterThanOne: two shares may be of one GPU
		}
		for _, uuid := range offered.devices[string(name)] {
			if len(uuids) < want && taken[uuid] < shares {
				uuids = append(uuids, uuid)
			}
		}
		if len(uuids) != want {
			return nil, false
		}
	}
	return uuids, true
}

// container turns the first container of a pod into what a guest runs.
func (c *machines) container(p *corev1.Pod, k *kubelet, gpus []string) guest.Container {
	ct := p.Spec.Containers[0]
	out := guest.Container{Image: ct.Image, Args: slices.Concat(ct.Command, ct.Args), GPUs: len(gpus),
		Env: map[string]string{}, Files: map[string][]byte{}}
	if len(gpus) > 0 { // the container's own variables come after those of the device plugin
		out.Env[visibleVariable] = strings.Join(gpus, ",")
	}
	for _, v := range ct.Env {
		out.Env[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
			out.Env[v.Name] = map[string]string{"spec.nodeName": p.Spec.NodeName, "metadata.name": p.Name,
				"metadata.namespace": p.Namespace, "status.hostIP": k.node.InternalIP.String()}[v.ValueFrom.FieldRef.FieldPath]
		}
	}
	if len(gpus) > 0 && p.Status.ExtendedResourceClaimStatus != nil { // CDI sets the variable over a container's own
		out.Env[visibleVariable] = strings.Join(gpus, ",")
	}
	for _, m := range ct.VolumeMounts {
		for _, v := range p.Spec.Volumes {
			if v.Name == m.Name && v.EmptyDir != nil {
				out.Empty = append(out.Empty, m.MountPath)
			} else if v.Name == m.Name {
				c.mount(out.Files, m, v, p.Namespace)
			}
		}
	}
	out.Volumes = c.mountDisks(p, &p.Spec.Containers[0])
	return out
}

// mount adds the files of a ConfigMap or Secret volume.
func (c *machines) mount(files map[string][]byte, m corev1.VolumeMount, v corev1.Volume, namespace string) {
	data := map[string][]byte{}
	var items []corev1.KeyToPath
	switch {
	case v.ConfigMap != nil:
		items = v.ConfigMap.Items
		if e := c.get(mustKind("configmaps"), namespace, v.ConfigMap.Name); e != nil {
			cm := entryAs[corev1.ConfigMap](e)
			for k, s := range cm.Data {
				data[k] = []byte(s)
			}
			for k, b := range cm.BinaryData {
				data[k] = b
			}
		}
	case v.Secret != nil:
		items = v.Secret.Items
		if e := c.get(mustKind("secrets"), namespace, v.Secret.SecretName); e != nil {
			data = entryAs[corev1.Secret](e).Data
		}
	}
	for k, b := range data {
		name := k
		if i := slices.IndexFunc(items, func(i corev1.KeyToPath) bool { return i.Key == k }); i >= 0 {
			name = items[i].Path
		} else if len(items) > 0 {
			continue
		}
		switch m.SubPath {
		case "":
			files[path.Join(m.MountPath, name)] = b
		case name:
			files[m.MountPath] = b
		}
	}
}

// recordEnd records how a pod has ended.
func (c *machines) recordEnd(e *entry, p *corev1.Pod, r *run) {
	status := p.Status.DeepCopy()
	status.Phase = corev1.PodSucceeded
	reason := "Completed"
	message := r.result.message
	if r.result.code != 0 {
		status.Phase, reason = corev1.PodFailed, "Error"
		if message == "" && p.Spec.Containers[0].TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
			message = r.output[max(0, len(r.output)-2048):]
		}
	}
	status.Conditions = conditions(corev1.ConditionFalse)
	for i := range status.ContainerStatuses {
		cs := &status.ContainerStatuses[i]
		began := metav1.Time{}
		if cs.State.Running != nil {
			began = cs.State.Running.StartedAt
		}
		cs.Ready = false
		cs.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: int32(r.result.code), Reason: reason, StartedAt: began, //nolint:gosec // an exit status
			Message: message[:min(len(message), 4096)], FinishedAt: metav1.NewTime(r.result.at.UTC().Truncate(time.Second))}}
	}
	c.putStatus(e, status)
}

// kubeletAPI answers for a node's kubelet: with what pods have written.
func (c *machines) kubeletAPI(string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		output := ""
		if e := c.get(mustKind("pods"), r.PathValue("namespace"), r.PathValue("pod")); e != nil && c.runs[e.uid] != nil {
			output = c.runs[e.uid].output
		}
		c.mu.Unlock()
		_, _ = io.WriteString(w, output)
	})
	return mux
}

// evict deletes a pod, unless a disruption budget forbids it.
func (c server) evict(t target, e *entry, body []byte) (any, int, error) {
	p := entryAs[corev1.Pod](e)
	if p.DeletionTimestamp == nil && !control.Ended(p) {
		for _, be := range c.all("poddisruptionbudgets.policy") {
			b := entryAs[policyv1.PodDisruptionBudget](be)
			if b.Namespace != p.Namespace || b.Spec.Selector == nil || !control.Selects(b.Spec.Selector, p.Labels) {
				continue
			}
			if healthy, needed := c.budget(b); healthy-1 < needed {
				err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause,
					Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, needed, healthy)}}
				return nil, 0, err
			}
		}
	}
	var eviction policyv1.Eviction
	obj, err := decode(body)
	if err != nil {
		return nil, 0, err
	}
	options, _ := dig(obj, "deleteOptions", "preconditions", "uid").(string)
	if options != "" && options != string(p.UID) {
		return nil, 0, apierrors.NewConflict(t.kind.resource(), t.name, fmt.Errorf("the UID in the precondition (%s) does not match", options))
	}
	if !t.dryRun {
		c.erase(e, metav1.DeleteOptions{})
	}
	eviction.TypeMeta = metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"}
	return eviction, http.StatusCreated, nil
}

// budget counts the healthy pods of a disruption budget, and those it needs.
func (c *Cluster) budget(b *policyv1.PodDisruptionBudget) (healthy, needed int) {
	all := 0
	for _, e := range c.all("pods") {
		p := entryAs[corev1.Pod](e)
		if p.Namespace != b.Namespace || control.Ended(p) || !control.Selects(b.Spec.Selector, p.Labels) {
			continue
		}
		all++
		if control.Ready(p) && p.DeletionTimestamp == nil {
			healthy++
		}
	}
	if v := b.Spec.MinAvailable; v != nil {
		needed, _ = intstr.GetScaledValueFromIntOrPercent(v, all, true)
	} else if v := b.Spec.MaxUnavailable; v != nil {
		down, _ := intstr.GetScaledValueFromIntOrPercent(v, all, true)
		needed = all - down
	}
	return healthy, needed
}

// restartPods marks what ran on a machine that has restarted: its pods start again, and
// those that were to end once have failed.
func (c *machines) restartPods(node string) {
	for _, e := range c.all("pods") {
		p := entryAs[corev1.Pod](e)
		r := c.runs[string(p.UID)]
		if r != nil && p.Spec.NodeName == node && changesHost(p) { // after a boot it has to do so again
			r.began = false
		}
		if p.Spec.NodeName != node || r == nil || control.Ended(p) || r.result != nil || r.stop == nil {
			continue
		}
		r.stop()
	}
}
